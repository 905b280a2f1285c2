"""Conversions between values and the contract's messages, without IO: a module for each subject."""

"""Reads of a data folder without a lock."""

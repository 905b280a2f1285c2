"""Readers of options and arguments."""

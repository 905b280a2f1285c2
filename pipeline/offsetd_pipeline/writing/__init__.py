"""Offsets of a table to a server: tasks pack their rows, the driver commits them."""

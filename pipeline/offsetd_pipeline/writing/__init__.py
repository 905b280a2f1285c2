"""Writes tables of offsets to a server: tasks pack their rows, and the driver commits them."""

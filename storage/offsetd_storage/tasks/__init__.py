"""Periodic tasks and supervised work."""

"""Retention: finds the segments that are due, and deletes them."""

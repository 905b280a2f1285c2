"""Retention: which segments are due, and how they are deleted."""

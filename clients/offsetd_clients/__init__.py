"""Clients of offsetd: commit and fetch the offsets of consumer groups."""

"""The background work of an open store."""

"""A file for each system: how it is started, and how offsets are kept in it."""

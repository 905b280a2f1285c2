"""The systems, each in its own module: how to start it, and how to store offsets in it."""

"""Reads and changes of large groups, in turns of the event loop."""

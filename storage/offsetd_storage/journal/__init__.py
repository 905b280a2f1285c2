"""The journal: its bytes, its two files, and what recovery reads of it."""

"""The journal: its bytes, its two files, and their recovery."""

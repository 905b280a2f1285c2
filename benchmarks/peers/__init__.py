"""Offsets kept in other systems, beside ours: the same work, side by side."""

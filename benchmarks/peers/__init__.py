"""Compares other systems that store offsets with ours: the same work, side by side."""

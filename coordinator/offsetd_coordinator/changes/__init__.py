"""Changes of offsets by administrators: resets, clones, imports, restores."""

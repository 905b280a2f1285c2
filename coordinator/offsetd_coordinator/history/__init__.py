"""Earlier offsets and changes: history, restores, and watchers."""

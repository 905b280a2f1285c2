"""What was committed before: history, restores, and watchers."""

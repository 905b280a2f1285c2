"""The files of a data folder other than its logs: format, lock, checkpoints."""

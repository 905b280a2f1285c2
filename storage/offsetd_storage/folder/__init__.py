"""The files of a data folder besides its logs: format, lock, checkpoints."""

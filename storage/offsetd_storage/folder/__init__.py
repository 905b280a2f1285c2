"""The files of a data folder beside its logs: format, lock, checkpoints."""

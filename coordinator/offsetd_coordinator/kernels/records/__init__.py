"""Kernels that write, replay and compare records of the log."""

"""Kernels of the packed offset table."""

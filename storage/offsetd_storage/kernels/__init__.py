"""Loops that run per record over whole segments, compiled by Numba."""

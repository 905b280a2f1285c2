"""The coordinator's loops over records, compiled by Numba."""

"""The pipeline's loops over records, compiled by Numba."""

"""Conversion of commits and fetches between protobuf's bytes and the packed table, by kernels."""

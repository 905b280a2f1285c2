"""Kernels that read and write protobuf messages."""

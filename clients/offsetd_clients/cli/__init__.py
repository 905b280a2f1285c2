"""The command line `offsetd`."""

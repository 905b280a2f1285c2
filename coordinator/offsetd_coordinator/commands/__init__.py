"""Commands this package adds to `offsetd`."""

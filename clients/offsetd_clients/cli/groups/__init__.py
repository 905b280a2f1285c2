"""The commands `offsetd groups` and `offsetd watch`."""

"""The commands `offsetd migrate`."""

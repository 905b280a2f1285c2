"""What runs beside the appends of an open store."""

"""What commands print with: tables, lines, and their order."""

"""Changes from the pages: forms that show what would change, ask for a reason, and do it once."""

"""What commands read from their options and arguments."""

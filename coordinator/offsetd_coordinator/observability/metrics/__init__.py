"""What the server counts, and how Prometheus gets it."""

"""Tasks of the event loop that run beside the calls."""

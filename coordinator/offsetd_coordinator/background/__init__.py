"""Background tasks of the event loop."""

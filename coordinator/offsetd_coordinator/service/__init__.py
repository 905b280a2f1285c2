"""The gRPC edge: messages to values, errors to statuses."""

"""gRPC: names, handlers, and the commit stream."""

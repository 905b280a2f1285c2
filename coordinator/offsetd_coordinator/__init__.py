"""The coordinator: a gRPC service over pure shards, one for each partition of the offsets log."""

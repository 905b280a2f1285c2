"""The coordinator: a gRPC service over pure shards, one a partition of the offsets log."""

"""The state of one shard, and the batches that change it."""

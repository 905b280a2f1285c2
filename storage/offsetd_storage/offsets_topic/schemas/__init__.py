"""Keys and values of `__consumer_offsets`, as Kafka writes them."""

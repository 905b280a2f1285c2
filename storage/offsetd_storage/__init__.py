"""The log engine: partitions of Kafka record batches behind one journal, usable on its own."""

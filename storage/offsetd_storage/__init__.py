"""The log engine: partitions of Kafka record batches that share a journal. Usable on its own."""

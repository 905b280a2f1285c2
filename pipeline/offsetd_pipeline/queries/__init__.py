"""Streaming queries that read from Kafka, and the groups that say how far they are."""

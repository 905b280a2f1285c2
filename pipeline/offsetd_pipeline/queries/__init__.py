"""Streaming queries that read from Kafka, and the groups that hold their progress."""

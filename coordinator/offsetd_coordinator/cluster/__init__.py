"""The log on a Kafka cluster, shared by several nodes."""

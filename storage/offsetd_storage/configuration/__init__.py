"""Settings of topics' logs and of background work, under Kafka's names."""

"""Settings of topics' logs and of what runs beside them, under Kafka's names."""

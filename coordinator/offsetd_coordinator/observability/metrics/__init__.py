"""The server's metrics and the endpoint that Prometheus reads."""

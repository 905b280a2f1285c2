"""How a call reaches a server: connection, security, retries, the queue of commits."""

"""The server's settings: declared, read, and changed while it runs."""

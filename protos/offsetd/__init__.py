"""The contract of offsetd."""

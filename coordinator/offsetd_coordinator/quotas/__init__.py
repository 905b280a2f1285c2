"""Quotas: how much a principal or a client may ask for, pure."""

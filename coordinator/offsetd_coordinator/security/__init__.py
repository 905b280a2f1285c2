"""Identities of callers, and the rules of what they may do. Pure."""

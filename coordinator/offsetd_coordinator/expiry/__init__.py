"""Expiry of offsets and groups: its rules, and the reasons that suspend it."""

"""Offsets in ZooKeeper: read in every layout, followed as they change, and written back."""

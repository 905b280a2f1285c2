"""Offsets that live in ZooKeeper: read in every layout, followed as they move, and written back."""

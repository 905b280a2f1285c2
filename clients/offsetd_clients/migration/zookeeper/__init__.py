"""Reads offsets in ZooKeeper in every layout, follows their changes, and writes them back."""

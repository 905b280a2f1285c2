"""The part of the consumer without clock and calls: its positions, and its part in a group.

The drivers are `aio.consumer` and `sync.consumer`, which is generated from the first.
"""

"""The pure part of the consumer: its positions, and its part in a group. No clock, no calls.

The drivers are `aio.consumer` and `sync.consumer`, which is generated from it.
"""

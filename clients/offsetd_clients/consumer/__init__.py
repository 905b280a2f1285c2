"""The pure part of the consumer: its positions, its part in a group. No clock, no calls.

The drivers are `aio.consumer` and, made from it, `sync.consumer`.
"""

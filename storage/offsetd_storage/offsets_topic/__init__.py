"""The records of `__consumer_offsets`, the partition of a group, and files of offsets.

Offset files are in the formats of other tools, and one of our own. The engine does not look into
records: nothing else in `offsetd_storage` imports this package.
"""

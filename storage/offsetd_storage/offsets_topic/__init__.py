"""The records of `__consumer_offsets`, the partition of a group, and files of offsets.

Offset files are in the formats of other tools, or in offsetd's own. The engine does not read the
contents of records: nothing else in `offsetd_storage` imports this package.
"""

"""What the records of `__consumer_offsets` say: their keys and values, and where groups live;
and files of offsets, in the formats of others.

The engine does not look into records: nothing else in `offsetd_storage` imports this package.
"""

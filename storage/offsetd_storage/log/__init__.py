"""The log of one partition: segments, indexes, lists, and appends."""

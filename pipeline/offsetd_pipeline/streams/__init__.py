"""Streams of changes: `readStream.format("offsetd")`, for folders and servers."""

"""Changes as they come: `readStream.format("offsetd")`, for folders and servers."""

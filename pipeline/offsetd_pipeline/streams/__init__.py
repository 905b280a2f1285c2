"""Changes as they come: `readStream.format("offsetd")`, over a folder and over a server."""

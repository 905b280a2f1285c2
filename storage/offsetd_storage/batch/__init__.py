"""Record batches: their bytes, compression, timestamps and validation."""

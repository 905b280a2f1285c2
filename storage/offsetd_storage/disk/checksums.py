"""The checksum of our own files: CRC32C, as in Kafka's record batches."""

from __future__ import annotations

from offsetd_storage.kernels import padded_copy
from offsetd_storage.kernels.crc32c import crc32c


def checksum(content: bytes) -> int:
    """CRC32C of some bytes."""
    return crc32c(padded_copy(content), 0, len(content))

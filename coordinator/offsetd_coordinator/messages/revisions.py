"""Revisions in messages: the positions of records in the log."""

from __future__ import annotations

from typing import Final

from offsetd.v1.types_pb2 import Revision

# A revision takes less than 128 bytes, so its length takes one byte.
_REVISION_FIELD: Final = b"\x0a%c%b"


def set_revision(message: Revision, log_partition: int, log_offset: int | None) -> None:
    """Sets `message`, unless nothing was written."""
    if log_offset is not None:
        message.log_partition = log_partition
        message.log_offset = log_offset


def committed_response(log_partition: int, log_offset: int) -> bytes:
    """The bytes of a CommitOffsetsResponse.

    Its only field is encoded by hand: two protobuf messages for each commit would take three times
    as long.
    """
    revision = Revision(log_partition=log_partition, log_offset=log_offset).SerializeToString()
    return _REVISION_FIELD % (len(revision), revision)

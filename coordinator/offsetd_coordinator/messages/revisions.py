"""Revisions in messages: the positions of records in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsetd.v1.types_pb2 import Revision


def set_revision(message: Revision, log_partition: int, log_offset: int | None) -> None:
    """Sets `message`, unless nothing was written."""
    if log_offset is not None:
        message.log_partition = log_partition
        message.log_offset = log_offset

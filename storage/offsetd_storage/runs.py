"""Runs: several record batches of one log, one after the other in one piece of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from offsetd_storage.errors import CorruptBatch
from offsetd_storage.record_batch import batch_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.errors import StorageFull


class AppendedRun(NamedTuple):
    """What of a run is in the log."""

    batches: bytes  # As they are in the log: the first `batch_count` of the run.
    batch_count: int
    full: StorageFull | None  # Why the others are not; None where all are.


def split_run(batches: bytes) -> Iterator[bytes]:
    """The batches of a run, one by one. Raises CorruptBatch where they are not whole."""
    position = 0
    while position < len(batches):
        end = position + batch_header(batches, position).size_bytes
        if end > len(batches):
            raise CorruptBatch("a batch of a run is cut short", position=position)
        yield batches[position:end]
        position = end

"""Runs: several record batches of one log, one after the other in one buffer.

To append a run costs less than to append its batches one by one. The log and the indexes are the
same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels.batch_headers import (
    FLAW,
    FLAW_AT,
    FOUND_COLUMNS,
    RUN_COLUMNS,
    look_at_runs,
)
from offsetd_storage.kernels.encode import (
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    LENGTH_EXCLUDES_BYTES,
)
from offsetd_storage.kernels.scan import BAD_OFFSET, END, INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.errors import StorageError
    from offsetd_storage.kernels.scan import Bytes, Numbers

_FLAWS: Final = {
    END: "a run without a batch",
    INCOMPLETE: "a batch of a run is cut short",
    BAD_OFFSET: "the offsets in a run leave a gap",
}


class Run(NamedTuple):
    """At least one batch. The fields after `content` are in the order of the kernel's columns."""

    content: bytes
    batch_count: int
    batch_bytes_max: int
    base_offset: int
    last_offset: int
    leader_epoch_max: int
    timestamp_ms_min: int  # The least and the largest of the batches' largest timestamps.
    timestamp_ms_max: int
    timestamp_ms_max_offset: int  # The last offset of the first batch with the largest timestamp.


class AppendedRuns(NamedTuple):
    """The parts of runs that were appended."""

    batch_counts: list[int]  # The number of first batches of each run that were appended.
    refusals: dict[int, StorageError]  # By the run's place: the error that stopped its append.


def read_runs(content: Bytes, spans: Numbers) -> list[Run]:
    """The runs in `content`. Each row of `spans` has the start and the end of a run.

    Raises CorruptBatch unless each run has whole batches whose offsets have no gaps.
    """
    found = np.empty((len(spans), FOUND_COLUMNS), np.int64)
    flawed = look_at_runs(content, spans, found)
    if flawed >= 0:
        flaw, position = found[flawed, FLAW : FLAW_AT + 1].tolist()
        reason = _FLAWS.get(flaw, "a run holds bytes that are not a batch")
        raise CorruptBatch(reason, position=position)
    view = content.data
    contents = (bytes(view[start:end]) for start, end in spans.tolist())
    columns = found[:, :RUN_COLUMNS].T.tolist()
    return list(map(Run._make, zip(contents, *columns, strict=True)))


def split_run(content: bytes) -> Iterator[bytes]:
    """The batches of a run, by their sizes alone. Raises CorruptBatch if one is not whole."""
    size, position = len(content), 0
    while position < size or not size:
        end = position
        if size - position >= BATCH_HEADER_BYTES:
            length_at = position + BATCH_LENGTH_AT
            end += LENGTH_EXCLUDES_BYTES + int.from_bytes(content[length_at : length_at + 4])
        if not position + BATCH_HEADER_BYTES <= end <= size:
            raise CorruptBatch("a batch of a run is cut short", position=position)
        yield content[position:end]
        position = end

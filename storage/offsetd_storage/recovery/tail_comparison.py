"""A check that the tail of a log after its recovery point matches the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from offsetd_storage.disk.files import Files

# The partition leader epoch of a batch. No checksum covers it.
_EPOCH_AT: Final = 12
_EPOCH_END: Final = 16


@attrs.frozen
class Stretch:
    """A range of bytes with whole batches, in a segment's file."""

    path: Path
    start: int
    end: int


def is_of_journal(files: Files, stretches: Iterable[Stretch], batches: Iterable[bytes]) -> bool:
    """Returns whether the stretches have the first of `batches`, apart from their leader epochs.

    A broker would have written other batches. So if only the epoch differs, it was damaged on the
    disk. Raises OSError.
    """
    expected = iter(batches)
    for stretch in stretches:
        file = files.open(stretch.path, read_only=True)
        try:
            position = stretch.start
            while position < stretch.end:
                batch = next(expected, b"")
                found = bytes(file.pread(len(batch), position))
                if not batch or _without_epoch(found) != _without_epoch(batch):
                    return False
                position += len(batch)
        finally:
            file.close()
    return True


def _without_epoch(batch: bytes) -> bytes:
    return batch[:_EPOCH_AT] + batch[_EPOCH_END:]

"""One segment of a log: `<base offset>.log` and the two indexes beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.files import File, Files

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"


def segment_path(folder: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> Path:
    """A segment's file: the base offset in 20 digits, then the suffix."""
    return folder / f"{base_offset:020d}{suffix}"


def segment_base_offsets(files: Files, folder: Path) -> list[int]:
    """Base offsets of the segments in a partition's folder, in order."""
    stems = (
        name.removesuffix(LOG_SUFFIX)
        for name in files.list_folder(folder)
        if name.endswith(LOG_SUFFIX)
    )
    return sorted(
        int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit()
    )


class Segment:
    """A segment's bytes and what its log knows of them."""

    base_offset: int
    file: File
    path: Path
    size_bytes: int  # queued batches included
    written_bytes: int  # in the file
    offset_next: int  # queued batches included
    first_timestamp_ms: int  # largest timestamp of the first batch, -1 without one
    largest_timestamp_ms: int  # -1 without one
    largest_timestamp_offset: int  # last offset of the batch that has it

"""Settles by suffix what a crash left in a partition's folder, in Kafka's order (`LogLoader`).

`.deleted` files go. Beside a `.cleaned` file, swaps from its base offset on were not complete: they
go, then the `.cleaned` file does. A `.swap` that is left replaces every segment within the offsets
that it covers. The folder is synced between the steps, so that each may be the last before a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.quarantine import Damage
from offsetd_storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_base_offsets,
    segment_path,
)
from offsetd_storage.segment_scan import scan_segment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from offsetd_storage.files import Files
    from offsetd_storage.topic_partition import TopicPartition

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"

_SEGMENT_SUFFIXES: Final = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
_BASE_OFFSET_DIGITS: Final = 20


@attrs.frozen(kw_only=True)
class SegmentFileName:
    """`<base offset><suffix><state>`."""

    name: str
    base_offset: int
    suffix: str
    state: str  # Empty for a file in use.

    @classmethod
    def parse(cls, name: str) -> SegmentFileName | None:
        """None for a name that is not one of a segment's."""
        stem, rest = name[:_BASE_OFFSET_DIGITS], name[_BASE_OFFSET_DIGITS:]
        if len(stem) < _BASE_OFFSET_DIGITS or not (stem.isascii() and stem.isdigit()):
            return None
        for suffix in _SEGMENT_SUFFIXES:
            for state in ("", CLEANED_SUFFIX, SWAP_SUFFIX):
                if rest == suffix + state:
                    return cls(name=name, base_offset=int(stem), suffix=suffix, state=state)
        return None


def settle_folder(files: Files, folder: Path, topic_partition: TopicPartition) -> Damage | None:
    """Settles one partition's folder. Damage, and nothing deleted, where a swap is not whole."""
    names = files.list_folder(folder)
    _unlink(files, folder, [name for name in names if name.endswith(DELETED_SUFFIX)])
    segment_files = _segment_files(files, folder)
    cleaned = [each for each in segment_files if each.state == CLEANED_SUFFIX]
    if cleaned:
        first_cleaned = min(each.base_offset for each in cleaned)
        unfinished = [
            each.name
            for each in segment_files
            if each.state == SWAP_SUFFIX and each.base_offset >= first_cleaned
        ]
        _unlink(files, folder, unfinished)  # First: without the `.cleaned` they would look whole.
        _unlink(files, folder, [each.name for each in cleaned])
    return _finish_swaps(files, folder, topic_partition)


def sync_segments(files: Files, partition_folder: Path, *, drop_cache: bool) -> None:
    """Makes a folder's segments durable as they are, and, if told to, forgets what cannot be.

    The page cache outlives a killed process, and shows writes whose sync failed as if they were
    there.
    """
    for base_offset in segment_base_offsets(files, partition_folder):
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = segment_path(partition_folder, base_offset, suffix)
            if not files.exists(path):
                continue
            file = files.open(path)
            try:
                file.sync()
                if drop_cache:
                    file.drop_cache()
            finally:
                file.close()
    files.sync_folder(partition_folder)


def _segment_files(files: Files, folder: Path) -> list[SegmentFileName]:
    parsed = (SegmentFileName.parse(name) for name in files.list_folder(folder))
    return [each for each in parsed if each is not None]


def _unlink(files: Files, folder: Path, names: Iterable[str]) -> None:
    names = list(names)
    for name in names:
        files.unlink(folder / name)
    if names:
        files.sync_folder(folder)


def _finish_swaps(files: Files, folder: Path, topic_partition: TopicPartition) -> Damage | None:
    segment_files = _segment_files(files, folder)
    swaps = [
        each for each in segment_files if each.state == SWAP_SUFFIX and each.suffix == LOG_SUFFIX
    ]
    ranges: list[range] = []
    for swap in swaps:
        file = files.open(folder / swap.name, read_only=True)
        try:
            scan = scan_segment(
                file,
                size=file.size(),
                base_offset=swap.base_offset,
                offset_min=swap.base_offset,
            )
        finally:
            file.close()
        if scan.stop is not None:  # It was synced before it got its name: this is no tear.
            return Damage(
                topic_partition=topic_partition,
                segment_base_offset=swap.base_offset,
                position=scan.stop.position,
                reason=f"{swap.name} is damaged",
            )
        ranges.append(range(swap.base_offset, max(scan.offset_next, swap.base_offset + 1)))
    # Indexes are derived; those of the swap are made anew with those of what it replaces.
    stale = [
        each.name
        for each in segment_files
        if (each.state == SWAP_SUFFIX and each.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        or (each.state == "" and any(each.base_offset in covered for covered in ranges))
    ]
    _unlink(files, folder, stale)
    swaps_left = [each for each in segment_files if each.state == SWAP_SUFFIX]
    for swap in sorted(swaps_left, key=lambda each: each.suffix == LOG_SUFFIX):
        if swap.name not in stale:
            files.rename(folder / swap.name, folder / swap.name.removesuffix(SWAP_SUFFIX))
            files.sync_folder(folder)  # The log's own name last: until then it can be done again.
    return None


def unlink_orphans(files: Files, folder: Path) -> None:
    """Takes away index files without a log, of a partition that is not damaged."""
    segment_files = [each for each in _segment_files(files, folder) if not each.state]
    logs = {each.base_offset for each in segment_files if each.suffix == LOG_SUFFIX}
    _unlink(files, folder, [each.name for each in segment_files if each.base_offset not in logs])

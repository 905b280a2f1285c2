"""Recovery of interrupted segment swaps, by file suffix, in Kafka's order (`LogLoader`).

`.deleted` files are removed. If there is a `.cleaned` file, the swaps from its base offset on were
not complete: they are removed, then the `.cleaned` file is. A remaining `.swap` file replaces every
segment within the offsets that it covers. The folder is synced between the steps, so that each may
be the last before a crash.

The steps are listed before they are done, so that a log can be judged without changing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.log.segment_files import (
    CLEANED_STATE,
    DELETED_STATE,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_STATE,
    TIME_INDEX_SUFFIX,
)
from offsetd_storage.log.segment_scan import scan_file
from offsetd_storage.recovery.quarantine import DamageFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files

_BASE_OFFSET_DIGITS: Final = 20
_OFFSET_MAX: Final = 2**63 - 1


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
        if int(stem) > _OFFSET_MAX:
            return None
        for suffix in SEGMENT_SUFFIXES:
            for state in ("", CLEANED_STATE, SWAP_STATE):
                if rest == suffix + state:
                    return cls(name=name, base_offset=int(stem), suffix=suffix, state=state)
        return None


@attrs.frozen(kw_only=True)
class Settling:
    """What settles a folder, by file names; made anew from what is there, it does the rest."""

    unlinked: Sequence[Sequence[str]]  # One group after the other, each durably.
    renamed: Sequence[str]  # `.swap` files that get their final names, one after the other.
    # By base offset: the logs that the folder has then, and the names that they have now.
    log_names: Mapping[int, str]


def plan_settling(files: Files, folder: Path) -> Settling:
    """Says what settles a partition's folder, and changes nothing.

    Raises DamageFound where a swap is not whole.
    """
    names = files.list_folder(folder) if files.exists(folder) else []
    deleted = [name for name in names if name.endswith(DELETED_STATE)]
    found = _segment_files(names)
    cleaned = [each for each in found if each.state == CLEANED_STATE]
    first_cleaned = min((each.base_offset for each in cleaned), default=None)
    unfinished = [
        each
        for each in found
        if each.state == SWAP_STATE
        and first_cleaned is not None
        and each.base_offset >= first_cleaned
    ]
    left = [each for each in found if each not in cleaned and each not in unfinished]
    swaps = [each for each in left if each.state == SWAP_STATE]
    covered = [
        _covered(files, folder, swap.name, swap.base_offset)
        for swap in swaps
        if swap.suffix == LOG_SUFFIX
    ]
    # Indexes are derived; those of the swap are made anew with those of what it replaces.
    stale = [
        each
        for each in left
        if (each.state == SWAP_STATE and each.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        or (each.state == "" and any(each.base_offset in offsets for offsets in covered))
    ]
    staying = [each for each in left if each not in stale]
    # The log gets its name first, when all that it replaces is gone: beside a swapped log, an index
    # of transactions in use counts as one of what it replaces.
    renamed = sorted(
        (each for each in staying if each.state == SWAP_STATE),
        key=lambda each: each.suffix != LOG_SUFFIX,
    )
    return Settling(
        # Unfinished swaps first: without the `.cleaned` they would look whole.
        unlinked=[
            deleted,
            *([each.name for each in group] for group in (unfinished, cleaned, stale)),
        ],
        renamed=[each.name for each in renamed],
        log_names={each.base_offset: each.name for each in staying if each.suffix == LOG_SUFFIX},
    )


def settle(files: Files, folder: Path, settling: Settling) -> None:
    """Does what was planned, each step durably."""
    for names in settling.unlinked:
        _unlink(files, folder, names)
    for name in settling.renamed:
        files.rename(folder / name, folder / name.removesuffix(SWAP_STATE))
        files.sync_folder(folder)


def segment_file_names(names: Iterable[str]) -> list[str]:
    """Of the names in a partition's folder those of segments, in whatever state."""
    return [each.name for each in _segment_files(names)]


def sync_segments(files: Files, partition_folder: Path, *, drop_cache: bool) -> None:
    """Makes a folder's segments durable as they are, and, if told to, forgets what cannot be.

    The page cache outlives a killed process, and shows writes whose sync failed as if they were
    there.
    """
    for name in segment_file_names(files.list_folder(partition_folder)):
        file = files.open(partition_folder / name)
        try:
            file.sync()
            if drop_cache:
                file.drop_cache()
        finally:
            file.close()
    files.sync_folder(partition_folder)


def _covered(files: Files, folder: Path, name: str, base_offset: int) -> range:
    """The offsets that a swapped log replaces."""
    scan = scan_file(files, folder / name, base_offset=base_offset)
    if scan.stop is not None:  # It was synced before it got its name: this is no tear.
        raise DamageFound(
            f"{name} is damaged", base_offset=base_offset, position=scan.stop.position
        )
    return range(base_offset, max(scan.offset_next, base_offset + 1))


def _segment_files(names: Iterable[str]) -> list[SegmentFileName]:
    parsed = (SegmentFileName.parse(name) for name in names)
    return [each for each in parsed if each is not None]


def _unlink(files: Files, folder: Path, names: Sequence[str]) -> None:
    for name in names:
        files.unlink(folder / name)
    if names:
        files.sync_folder(folder)


def unlink_orphans(files: Files, folder: Path) -> None:
    """Takes away index files without a log, of a partition that is not damaged."""
    in_use = [each for each in _segment_files(files.list_folder(folder)) if not each.state]
    logs = {each.base_offset for each in in_use if each.suffix == LOG_SUFFIX}
    _unlink(files, folder, [each.name for each in in_use if each.base_offset not in logs])

"""Recovery of interrupted segment swaps, by file suffix, in Kafka's order (`LogLoader`).

`.deleted` files are removed. If there is a `.cleaned` file, the swaps at or above its base offset
were not complete: their files are removed, then the `.cleaned` file. A remaining `.swap` file
replaces every segment within the offsets that it covers. The folder is synced after each step, so
that a crash may follow any step.

The steps are planned before they are carried out, so that a log can be judged without a change.
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
    """The parts of a name `<base offset><suffix><state>`."""

    name: str
    base_offset: int
    suffix: str
    state: str  # Empty for a file in use.

    @classmethod
    def parse(cls, name: str) -> SegmentFileName | None:
        """The parts of a name; None if it is not the name of a segment's file."""
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
class SwapPlan:
    """The steps that finish or undo interrupted swaps, by file name.

    After a crash, a new plan made from the remaining files does the rest.
    """

    unlinked: Sequence[Sequence[str]]  # In groups; the folder is synced after each group.
    renamed: Sequence[str]  # `.swap` files that get their final names, one by one.
    # The logs that the folder has afterwards, by base offset, under their present names.
    log_names: Mapping[int, str]


def plan_swaps(files: Files, folder: Path) -> SwapPlan:
    """Plans how to finish or undo the swaps in a partition's folder. Changes nothing.

    Raises DamageFound if a swapped log is damaged.
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
    # Indexes are derived data. Those of the swap, and all files of replaced segments, are removed.
    stale = [
        each
        for each in left
        if (each.state == SWAP_STATE and each.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        or (each.state == "" and any(each.base_offset in offsets for offsets in covered))
    ]
    staying = [each for each in left if each not in stale]
    # The log is renamed first, after all files that it replaces are removed: while a `.log.swap`
    # exists, a transaction index with its final name counts as a file that is replaced.
    renamed = sorted(
        (each for each in staying if each.state == SWAP_STATE),
        key=lambda each: each.suffix != LOG_SUFFIX,
    )
    return SwapPlan(
        # Unfinished swaps are first: without the `.cleaned` files they would seem complete.
        unlinked=[
            deleted,
            *([each.name for each in group] for group in (unfinished, cleaned, stale)),
        ],
        renamed=[each.name for each in renamed],
        log_names={each.base_offset: each.name for each in staying if each.suffix == LOG_SUFFIX},
    )


def apply_swaps(files: Files, folder: Path, swap_plan: SwapPlan) -> None:
    """Carries out the plan. Each step is durable."""
    for names in swap_plan.unlinked:
        _unlink(files, folder, names)
    for name in swap_plan.renamed:
        files.rename(folder / name, folder / name.removesuffix(SWAP_STATE))
        files.sync_folder(folder)


def segment_file_names(names: Iterable[str]) -> list[str]:
    """Selects the names of segment files from the names in a partition's folder.

    It also selects the files of segments that are being cleaned, swapped or deleted.
    """
    return [each.name for each in _segment_files(names)]


def sync_segments(files: Files, partition_folder: Path, *, drop_cache: bool) -> None:
    """Syncs a folder's segments; `drop_cache` then drops their pages from the cache.

    The page cache outlives a killed process, and shows writes whose sync failed as if they were on
    the disk.
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
    """The offsets that a swapped log replaces. Raises DamageFound if it is damaged."""
    scan = scan_file(files, folder / name, base_offset=base_offset)
    if scan.stop is not None:  # A crash cannot cause this: the file was synced before its rename.
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
    """Removes index files that have no log, in a partition that is not damaged."""
    in_use = [each for each in _segment_files(files.list_folder(folder)) if not each.state]
    logs = {each.base_offset for each in in_use if each.suffix == LOG_SUFFIX}
    _unlink(files, folder, [each.name for each in in_use if each.base_offset not in logs])

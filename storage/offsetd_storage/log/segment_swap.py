"""Replaces segments by cleaned ones, and deletes segments.

Each step is durable before the next, so that a crash at any moment leaves a log whose batches mean
the same as before. After a crash, `recovery.swap_recovery` finishes or undoes the swap:

1. The new files are in state `.cleaned`, synced with their contents. After a crash they are
   removed. The list of the log's segments names the swap, so it is right before and after
   (`segment_list`).
2. `.cleaned` becomes `.swap`, the highest base offset first. After a crash the new files are
   removed if a `.cleaned` is left. If none is left, a `.swap` counts, and replaces the segments in
   its offsets.
3. In memory the new segments replace the old ones, which no thread opens any more.
4. The old ones become `.deleted`. Those that begin above the last offset of the new ones are not
   replaced by a `.swap` after a crash. They are renamed one by one, the lowest base offset first.
   So those that are left are always the unchanged later part of the log, and a tombstone is never
   removed before a value that it hides.
5. `.swap` becomes the final name.

Kafka's `LocalLog.replaceSegments` has the same steps, but syncs the folder only at the end.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from offsetd_storage.errors import StorageFull, is_no_room, may_pass, storage_failed
from offsetd_storage.log.segment_files import (
    CLEANED_STATE,
    DELETED_STATE,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_STATE,
    TRANSACTION_INDEX_SUFFIX,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment


def install(
    files: Files,
    log: PartitionLog,
    cleaned: Sequence[Segment],
    replaced: Sequence[Segment],
    *,
    discard: Callable[[Sequence[Path]], None] | None = None,
) -> None:
    """Replaces `replaced`, neighbours in the log below its recovery point, by `cleaned`.

    `cleaned` are in state `.cleaned` and synced, and the folder has no other file in that state. If
    there are none, the log just loses `replaced`. At the end these are `.deleted`, and their paths
    go to `discard`; by default their files are removed.

    If this raises StorageFull, nothing has changed, and `cleaned` are removed. If this raises
    StorageFailed, the contents of the disk are unknown, and the process must exit.
    """
    assert all(replaced[0].base_offset <= each.base_offset for each in cleaned)
    assert not _cleaned_names(files, log.folder, but=cleaned), "it would undo the swap in a crash"
    with _listed(files, log, replaced, cleaned):
        _install(files, log, cleaned, replaced, discard=discard)


def _install(
    files: Files,
    log: PartitionLog,
    cleaned: Sequence[Segment],
    replaced: Sequence[Segment],
    *,
    discard: Callable[[Sequence[Path]], None] | None,
) -> None:
    _begin(files, log.folder, cleaned)
    with _failing(f"{log.topic_partition}: segments could not be replaced"):
        log.replace_segments(replaced, cleaned)
        covered_next = max((each.offset_next for each in cleaned), default=0)
        _delete(files, log.folder, replaced, covered_next=covered_next)
        for segment in reversed(cleaned):
            _rename(segment, SWAP_STATE, "", suffixes=SEGMENT_SUFFIXES[:-1])
        if cleaned:
            files.sync_folder(log.folder)
        # This is last: next to a `.log.swap`, it would count as a file of the replaced segments.
        found = [segment.rename(TRANSACTION_INDEX_SUFFIX, SWAP_STATE, "") for segment in cleaned]
        if any(found):
            files.sync_folder(log.folder)
        _discard(replaced, discard)


def delete_oldest(
    files: Files,
    log: PartitionLog,
    count: int,
    *,
    discard: Callable[[Sequence[Path]], None] | None = None,
) -> None:
    """Deletes the oldest segments, which lie below a log start that is already durable.

    So a crash may leave any of them. Raises StorageFailed.
    """
    taken = log.take_oldest(count)
    if not taken:
        return
    with _failing(f"{log.topic_partition}: segments could not be deleted"):
        for segment in taken:
            _mark_deleted(segment)
        files.sync_folder(log.folder)
        _discard(taken, discard)


def unlink_cleaned(files: Files, folder: Path) -> None:
    """Removes the files of a cleaning round that failed; durable with the folder's next sync."""
    for name in _cleaned_names(files, folder):
        files.unlink(folder / name)


def _cleaned_names(files: Files, folder: Path, *, but: Sequence[Segment] = ()) -> list[str]:
    expected = {path.name for segment in but for path in segment.paths(CLEANED_STATE)}
    names = files.list_folder(folder)
    return [each for each in names if each.endswith(CLEANED_STATE) and each not in expected]


def _begin(files: Files, folder: Path, cleaned: Sequence[Segment]) -> None:
    """Step 2. Once it has ended, the start after a crash finishes the swap."""
    try:
        for segment in sorted(cleaned, key=_base_offset, reverse=True):
            _rename(segment, CLEANED_STATE, SWAP_STATE)
            # Sync each rename: next to a lower `.swap`, a higher `.cleaned` would be lost.
            files.sync_folder(folder)
    except Exception as error:
        if not isinstance(error, OSError) or not is_no_room(error) or len(cleaned) > 1:
            raise storage_failed(
                error, f"{folder}: cleaned segments could not be renamed"
            ) from error
        _give_up(files, folder, cleaned)
        raise StorageFull(f"{folder}: no room for the names of cleaned segments") from error


def _give_up(files: Files, folder: Path, cleaned: Sequence[Segment]) -> None:
    with _failing(f"{folder}: cleaned segments could not be removed"):
        for state in (SWAP_STATE, CLEANED_STATE):
            for segment in cleaned:
                segment.remove_files(state)
            files.sync_folder(folder)


@contextmanager
def _listed(
    files: Files, log: PartitionLog, replaced: Sequence[Segment], cleaned: Sequence[Segment]
) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(log.listing.replacing(replaced, cleaned))
        except Exception as error:
            if not isinstance(error, OSError) or not may_pass(error):
                raise storage_failed(
                    error, f"{log.folder}: the list of segments could not be written"
                ) from error
            _give_up(files, log.folder, cleaned)
            raise StorageFull(f"{log.folder}: no room for the list of segments") from error
        yield


def _delete(files: Files, folder: Path, segments: Sequence[Segment], *, covered_next: int) -> None:
    """Step 4. A crash leaves at most the last few segments at and above `covered_next`."""
    covered = [each for each in segments if each.base_offset < covered_next]
    for segment in covered:
        _mark_deleted(segment)
    if covered:
        files.sync_folder(folder)
    for segment in segments[len(covered) :]:
        _mark_deleted(segment, suffixes=(LOG_SUFFIX,))
        files.sync_folder(folder)
        _mark_deleted(segment, suffixes=SEGMENT_SUFFIXES[1:])


def _mark_deleted(segment: Segment, *, suffixes: Sequence[str] = SEGMENT_SUFFIXES) -> None:
    """Renames its files to `.deleted`. On a full disk without room for a name, removes them."""
    for suffix in suffixes:
        try:
            segment.rename(suffix, "", DELETED_STATE)
        except OSError as error:
            if not is_no_room(error):
                raise
            segment.remove_files(suffixes=(suffix,))


def _rename(
    segment: Segment, old_state: str, state: str, *, suffixes: Sequence[str] = SEGMENT_SUFFIXES
) -> None:
    for suffix in suffixes:
        segment.rename(suffix, old_state, state)


def _discard(segments: Sequence[Segment], discard: Callable[[Sequence[Path]], None] | None) -> None:
    if discard is not None:
        discard([path for segment in segments for path in segment.paths(DELETED_STATE)])
        return
    for segment in segments:
        segment.remove_files(DELETED_STATE)


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Turns any error into StorageFailed, also one that is not the disk's, such as MemoryError.

    The store must stop after a swap that is half done: the next start finishes it, and would undo
    later changes of the log.
    """
    try:
        yield
    except Exception as error:
        raise storage_failed(error, what) from error


def _base_offset(segment: Segment) -> int:
    return segment.base_offset

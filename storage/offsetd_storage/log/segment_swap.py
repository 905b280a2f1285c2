"""Puts cleaned segments in the place of those they were made of, and takes segments away.

Each step is durable before the next, so that a crash at any moment leaves a log whose batches say
the same as before; `settle` finishes or undoes what it finds:

1. `.cleaned`: the new files, contents and all, synced. A crash: they are thrown away. The list of
   the log's segments says what is going to happen, and is right before and after (`segment_list`).
2. `.cleaned` becomes `.swap`, from the highest base offset down. A crash: thrown away, as long as
   a `.cleaned` is left; then it counts, and takes the place of the segments within its offsets.
3. In memory the new segments take the place of the old ones, which nobody opens any more.
4. The old ones become `.deleted`. Those that begin behind the last offset of the new ones are not
   replaced by a `.swap` that a crash leaves. They go one by one, from the lowest base offset up:
   what is left of them is then always the log's later part, as it was, and a tombstone never goes
   before a value that it hides.
5. `.swap` becomes the final name.

Kafka's `LocalLog.replaceSegments` has the same steps, and syncs the folder only at the end.
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
    """Puts `cleaned` in the place of `replaced`, neighbours in the log below its recovery point.

    `cleaned` are in state `.cleaned` and synced, and no other file in the folder is; without any,
    the log just loses `replaced`. These are `.deleted` at the end, and `discard` sees to them; by
    default their files are removed.

    Raises StorageFull: nothing has changed, and `cleaned` are gone. Raises StorageFailed: what the
    disk holds is unknown, and the process has to exit.
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
        # Later: beside a swapped log it would count as one of what that replaces.
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
    """Takes away the oldest segments, below a log start that is durable already.

    So it does not matter which of them a crash leaves. Raises StorageFailed.
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
    """Removes what a round that failed has left; durable with the folder's next sync."""
    for name in _cleaned_names(files, folder):
        files.unlink(folder / name)


def _cleaned_names(files: Files, folder: Path, *, but: Sequence[Segment] = ()) -> list[str]:
    expected = {path.name for segment in but for path in segment.paths(CLEANED_STATE)}
    names = files.list_folder(folder)
    return [each for each in names if each.endswith(CLEANED_STATE) and each not in expected]


def _begin(files: Files, folder: Path, cleaned: Sequence[Segment]) -> None:
    """Step 2. After it a crash finishes the swap."""
    try:
        for segment in sorted(cleaned, key=_base_offset, reverse=True):
            _rename(segment, CLEANED_STATE, SWAP_STATE)
            # Now: a higher one that comes back as `.cleaned` would be lost beside a lower `.swap`.
            files.sync_folder(folder)
    except Exception as error:
        if not isinstance(error, OSError) or not is_no_room(error) or len(cleaned) > 1:
            raise storage_failed(error, f"{folder}: cleaned segments got no names") from error
        _give_up(files, folder, cleaned)
        raise StorageFull(f"{folder}: no room for the names of cleaned segments") from error


def _give_up(files: Files, folder: Path, cleaned: Sequence[Segment]) -> None:
    with _failing(f"{folder}: cleaned segments could not be given up"):
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
                raise storage_failed(error, f"{log.folder}: no list of segments") from error
            _give_up(files, log.folder, cleaned)
            raise StorageFull(f"{log.folder}: no room for the list of segments") from error
        yield


def _delete(files: Files, folder: Path, segments: Sequence[Segment], *, covered_next: int) -> None:
    """Step 4. A crash in it leaves some last ones of those at and above `covered_next`."""
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
    """Where a full disk has no room for a longer name, the file goes at once."""
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
    """Also of what is not the disk's, as a lack of memory: names that a swap has left half done
    would be finished by the next start, over what was done to the log in the meantime.
    """
    try:
        yield
    except Exception as error:
        raise storage_failed(error, what) from error


def _base_offset(segment: Segment) -> int:
    return segment.base_offset

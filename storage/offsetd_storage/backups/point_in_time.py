"""Where the logs of a backup are cut, so that they are as they were at an earlier time.

A log holds the earlier states too, except where the cleaner removed a record because of a later
one. `LogEntry.exact_from` says up to where that may have happened: no earlier cut is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from offsetd_storage.backups.backup_check import segment_chunks
from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.errors import CorruptBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from offsetd_storage.backups.manifest import LogEntry, Manifest, SegmentEntry
    from offsetd_storage.backups.repository import ListedBackup, Repository
    from offsetd_storage.batch.record_batch import BatchHeader
    from offsetd_storage.topic_partition import TopicPartition


class Cut(NamedTuple):
    """The first batch that is left out: its offset, and its place in a segment."""

    offset: int
    segment_base_offset: int
    position: int


class LogTimes(NamedTuple):
    """A log's cut for a time, or None if all of it is older; the earliest exact time.

    `first_ms` is the time of its first batch, or None if it has none.
    """

    cut: Cut | None
    exact_from_ms: int
    first_ms: int | None = None


def backup_for(backups: Sequence[ListedBackup], time_ms: int, *, of: Callable[[int], str]) -> str:
    """The earliest backup at or after a time. `of` shows a time. Raises BackupRefused."""
    for backup_id, manifest, _ in backups:
        if manifest is not None and manifest.moment_ms >= time_ms:
            return backup_id
    known = [each.manifest.moment_ms for each in backups if each.manifest is not None]
    newest = f": the newest backup is of {of(max(known))}" if known else ""
    raise BackupRefused(f"no backup reaches to {of(time_ms)}{newest}")


def cuts_at(
    repository: Repository, manifest: Manifest, time_ms: int, *, of: Callable[[int], str]
) -> dict[TopicPartition, Cut]:
    """The cut of each log that has later records. Reads all of the backup.

    Raises BackupRefused if the state at that time is not in the backup any more, or if there was
    nothing yet; BackupDamaged, CorruptBatch, TargetFailed.
    """
    times = {
        each.topic_partition: log_times(each, _batches(repository, each), time_ms)
        for each in manifest.logs
    }
    exact_from_ms = max((each.exact_from_ms for each in times.values()), default=0)
    if time_ms < exact_from_ms:
        raise BackupRefused(
            f"the state at {of(time_ms)} was compacted away: this backup has all states from"
            f" {of(exact_from_ms)} to {of(manifest.moment_ms)}"
        )
    first_ms = min(
        (each.first_ms for each in times.values() if each.first_ms is not None), default=0
    )
    if time_ms < first_ms:
        raise BackupRefused(
            f"there was nothing yet at {of(time_ms)}: this backup has all states from"
            f" {of(max(first_ms, exact_from_ms))} to {of(manifest.moment_ms)}"
        )
    return {each: found.cut for each, found in times.items() if found.cut is not None}


def log_times(
    log: LogEntry, batches: Iterator[tuple[SegmentEntry, int, BatchHeader]], time_ms: int
) -> LogTimes:
    """The cut of a log at a time, from its batches in their order: (segment, position, header)."""
    exact_from_ms = 0
    cut = first_ms = None
    for segment, position, header in batches:
        first_ms = header.max_timestamp_ms if first_ms is None else first_ms
        if header.base_offset < log.exact_from:
            exact_from_ms = max(exact_from_ms, header.max_timestamp_ms)
        if cut is None and header.max_timestamp_ms > time_ms:
            cut = Cut(header.base_offset, segment.base_offset, position)
    return LogTimes(cut, exact_from_ms, first_ms)


def _batches(
    repository: Repository, log: LogEntry
) -> Iterator[tuple[SegmentEntry, int, BatchHeader]]:
    for segment in log.segments:
        content = b"".join(segment_chunks(repository, log, segment))
        position = 0
        while position < len(content):
            header = batch_header(content, position)
            if header.size_bytes > len(content) - position:
                raise CorruptBatch(f"{log.topic_partition} ends early", position=position)
            yield segment, position, header
            position += header.size_bytes

"""All logs of an open store at one moment, pinned by descriptors of their segments' files.

The files of segments are only appended to, or replaced as a whole. So a descriptor and a length
keep what a segment held, whatever the cleaner and retention do meanwhile, and when the process ends
nothing is left behind. Commits go on.
"""

from __future__ import annotations

import resource
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

import attrs

from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.backups.manifest import LogEntry, Manifest, SegmentEntry
from offsetd_storage.errors import SegmentRetired

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offsetd_storage.clock import Clock
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment
    from offsetd_storage.log.segment_reader import SegmentReader
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

_TRIES: Final = 100
_DESCRIPTORS_SHARE: Final = 2
"""A pin takes at most a half of all descriptors; the rest is for connections and new segments."""


@attrs.frozen(kw_only=True)
class PinnedSegment:
    """A segment of which the first `size_bytes` are pinned. `sealed` is it, if nothing follows."""

    topic_partition: TopicPartition
    base_offset: int
    size_bytes: int
    sealed: Segment | None
    reader: SegmentReader = attrs.field(repr=False)


class _Changed(Exception):
    """A log was cleaned, or cut, between the moment and its pin."""


class PinnedLogs:
    """The pinned logs, for one thread at a time. `close` gives the descriptors back."""

    def __init__(
        self, head: Manifest, segments: tuple[PinnedSegment, ...], cleanup: ExitStack
    ) -> None:
        """Use `pin` instead."""
        self.head = head
        self.segments = segments
        self._cleanup = cleanup

    @classmethod
    def pin(
        cls,
        store: LogStore,
        *,
        clock: Clock,
        ends: Callable[[], Mapping[TopicPartition, int]] | None = None,
    ) -> Self:
        """Pins what is durable now: everything that was acknowledged before the call.

        `ends` gives the logs to take, with their ends, instead of the store. Raises BackupRefused
        if a log is quarantined, or the pin needs too many descriptors; StorageFailed, OSError.
        """
        if damaged := sorted(store.quarantined):
            raise BackupRefused(
                f"{damaged[0]} is quarantined: repair it first (offsetd log repair), or remove the"
                " cause and start again"
            )
        for _ in range(_TRIES):
            with ExitStack() as cleanup:
                try:
                    return cls._pinned(store, cleanup, clock, ends or store.durable_ends)
                except (SegmentRetired, _Changed):
                    continue
        raise BackupRefused("the logs are cleaned faster than they can be pinned: try again")

    @classmethod
    def _pinned(
        cls,
        store: LogStore,
        cleanup: ExitStack,
        clock: Clock,
        ends_of: Callable[[], Mapping[TopicPartition, int]],
    ) -> Self:
        # Taken first, and by the earliest clock: what is given out later has a later time.
        moment_ms = clock.age_now_ms()
        ends = ends_of()
        logs = [(store.log(each), ends[each]) for each in sorted(ends)]
        _check_descriptors(sum(len(log.segments) for log, _ in logs))
        entries, segments = [], []
        for log, end in logs:
            pinned = _pinned_segments(log, end, cleanup)
            segments += pinned
            entries.append(_entry(log, end, pinned))
        head = Manifest(
            moment_ms=moment_ms,
            folder_id=store.folder_id,
            offsets_partitions=store.partitions,
            is_from_elsewhere=store.is_from_elsewhere,
            logs=tuple(entries),
        )
        return cls(head, tuple(segments), cleanup.pop_all())

    def close(self) -> None:
        """Gives the descriptors back."""
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pinned_segments(log: PartitionLog, end: int, cleanup: ExitStack) -> list[PinnedSegment]:
    """The segments below `end`. Raises SegmentRetired if one has left the log meanwhile."""
    if end > log.offset_next_written:
        log.write()
    pinned = []
    segments = log.segments
    for segment in segments:
        if segment.base_offset >= end:
            break
        reader = cleanup.enter_context(segment.reader())
        is_whole = segment is not segments[-1] and segment.offset_next <= end
        size_bytes = segment.written_bytes if is_whole else reader.position_of(end)
        if size_bytes:
            pinned.append(
                PinnedSegment(
                    topic_partition=log.topic_partition,
                    base_offset=segment.base_offset,
                    size_bytes=size_bytes,
                    sealed=segment if is_whole else None,
                    reader=reader,
                )
            )
    return pinned


def _entry(log: PartitionLog, end: int, pinned: list[PinnedSegment]) -> LogEntry:
    """The log's entry. Raises _Changed if its segments may lack records below `end`.

    Call it with the segments open: what the cleaner does from now on does not concern them.
    """
    start_offset, superseders_end = log.log_start_offset, log.superseders_end
    if superseders_end > end or start_offset > end:
        raise _Changed
    # Where nothing is superseded, only the start says what is missing.
    exact_from = superseders_end if log.config.is_compacted else start_offset
    return LogEntry(
        topic_partition=log.topic_partition,
        start_offset=start_offset,
        end_offset=end,
        exact_from=exact_from,
        segments=tuple(
            SegmentEntry(base_offset=each.base_offset, size_bytes=each.size_bytes)
            for each in pinned
        ),
    )


def _check_descriptors(needed: int) -> None:
    """Raises BackupRefused if that many descriptors would not leave enough to the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed *= _DESCRIPTORS_SHARE
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise BackupRefused(
            f"a backup needs a descriptor for each segment: with {needed // 2} segments, raise the"
            f" limit of {hard} descriptors to {needed} (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))

"""One round of cleaning on one log: map the dirty range, filter each group, swap it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.cleaner.cleaned_segment import CleanedSegmentWriter
from offsetd_storage.cleaner.cleaned_transactions import (
    CleanedTransactions,
    ProducerHistory,
    read_producers,
)
from offsetd_storage.cleaner.cleaning_plan import group_segments, is_worth_rewriting
from offsetd_storage.cleaner.log_summaries import segment_summary
from offsetd_storage.cleaner.segment_chunks import CHUNK_BYTES, SegmentChunks
from offsetd_storage.cleaner.segment_filter import KeepRules, KeepStats, filter_segment
from offsetd_storage.errors import (
    CleaningAborted,
    CorruptBatch,
    StorageFull,
    is_unreadable,
    storage_failed,
    words_of,
)
from offsetd_storage.log.segment_swap import install, unlink_cleaned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.cleaner.cleaning_plan import LogToClean, SegmentSummary
    from offsetd_storage.cleaner.offset_map import MappedRange, OffsetMap
    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment
    from offsetd_storage.topic_partition import TopicPartition

PRODUCER_EXPIRATION_MS: Final = 86_400_000  # Kafka's producer.id.expiration.ms.


@attrs.frozen(kw_only=True)
class CleanerTools:
    """The tools that a cleaner thread uses in every round.

    `throttle(bytes)` is called for what is read and written, and may wait. If `should_stop` returns
    True, a round ends between two chunks. `discard` removes the files of replaced segments, which
    are `.deleted` by then; with None they are removed at once.
    """

    files: Files
    offset_map: OffsetMap
    clock: Clock
    throttle: Callable[[int], None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False
    discard: Callable[[Sequence[Path]], None] | None = None
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS
    chunk_bytes: int = CHUNK_BYTES  # The size of one read. A larger batch is read whole.

    def pace(self, size_bytes: int) -> None:
        """Waits for the throttle. Raises CleaningAborted."""
        if self.should_stop():
            raise CleaningAborted("told to stop")
        self.throttle(size_bytes)


@attrs.frozen(kw_only=True)
class CleanReport:
    """Kafka's figures of one round (`CleanerStats`), and a few more.

    `bytes_written` and `messages_written` count the bytes and messages that remain. They also count
    segments that were read and not rewritten.
    """

    topic_partition: TopicPartition
    first_dirty: int
    first_uncleanable: int
    offset_next: int  # Kafka's end offset: the first dirty offset of the next round.
    started_ms: int  # By the wall clock, after the map was built.
    last_modified_ms: int  # The time of the last segment that was read; 0 if none was.
    # Tombstones that an earlier round found before this time were removed. It is
    # `delete.retention.ms` ago.
    tombstones_until_ms: int
    map_is_full: bool  # If so, the round ended before the first uncleanable offset.
    map_utilization: float  # 0 to 1.
    map_bytes_read: int
    map_messages_read: int
    bytes_read: int
    bytes_written: int
    messages_read: int
    messages_written: int
    invalid_messages: int  # Messages without a key.
    segments_before: int
    segments_after: int
    segments_left_alone: int  # Not rewritten: nothing could be removed.
    delete_horizon_ms: int | None  # The earliest one that is left: the next pass is due then.
    index_ms: int  # The part of `elapsed_ms` that the map took.
    elapsed_ms: int


def clean_log(
    log: PartitionLog,
    tools: CleanerTools,
    *,
    first_dirty: int,
    first_uncleanable: int,
    history: ProducerHistory | None = None,
    dry_run: bool = False,
) -> CleanReport:
    """Cleans a log once, between these offsets (`LogToClean`). Its swaps are durable.

    `history` describes the log's producers; without it, the headers of the whole log are read. A
    `dry_run` changes nothing, and reports what would be left.

    Raises CleaningAborted, StorageFull, CorruptBatch, OldMessageFormat, and OSError if a file could
    not be opened. Then the log is unchanged, except for groups that were finished, and a round can
    be tried again. If this raises StorageFailed, the process must exit.
    """
    clock, started_ms = tools.clock, tools.clock.monotonic_ms()
    with _reading(log):
        if not dry_run:
            _forget_failed_round(log, tools.files)
        if history is None:
            history = read_history(log)
        mapped = _map_dirty(log, tools, first_dirty, first_uncleanable, history)
        mapped_ms = clock.monotonic_ms()
        cleaning = _Round(log, tools, first_uncleanable, history, mapped, dry_run=dry_run)
        cleaning.clean_groups()
    stats = cleaning.stats
    return CleanReport(
        topic_partition=log.topic_partition,
        first_dirty=first_dirty,
        first_uncleanable=first_uncleanable,
        offset_next=mapped.offset_next,
        started_ms=cleaning.rules.now_ms,
        last_modified_ms=cleaning.last_modified_ms,
        tombstones_until_ms=cleaning.rules.now_ms - cleaning.rules.delete_retention_ms,
        map_is_full=mapped.is_full,
        map_utilization=mapped.utilization,
        map_bytes_read=mapped.bytes_read,
        map_messages_read=mapped.messages_read,
        bytes_read=stats.bytes_read,
        bytes_written=stats.bytes_retained,
        messages_read=stats.messages_read,
        messages_written=stats.messages_retained,
        invalid_messages=mapped.invalid_messages + stats.invalid_messages,
        segments_before=cleaning.segments_before,
        segments_after=cleaning.segments_after,
        segments_left_alone=cleaning.segments_left_alone,
        delete_horizon_ms=stats.delete_horizon_ms,
        index_ms=mapped_ms - started_ms,
        elapsed_ms=clock.monotonic_ms() - started_ms,
    )


def clean_and_checkpoint(
    log: PartitionLog,
    tools: CleanerTools,
    found: LogToClean,
    checkpoint: CleanerCheckpoint,
    *,
    history: ProducerHistory | None = None,
) -> CleanReport:
    """Cleans a log. When the swaps are durable, records the offset up to which it is clean.

    Raises the errors of `clean_log`. If there is no room for the new checkpoint, the old one stays.
    Then only more is mapped again after a restart.
    """
    if found.checkpoint_was_reset:
        with suppress(StorageFull):
            checkpoint.advance(log.topic_partition, found.first_dirty)
    report = clean_log(
        log,
        tools,
        first_dirty=found.first_dirty,
        first_uncleanable=found.first_uncleanable,
        history=history,
    )
    with suppress(StorageFull):
        checkpoint.advance(log.topic_partition, report.offset_next)
    return report


def read_history(
    log: PartitionLog, *, throttle: Callable[[int], None] = lambda _: None
) -> ProducerHistory:
    """The history of a log's producers. Raises CorruptBatch, OldMessageFormat, OSError.

    Skips headers that are known not to matter. `throttle(bytes)` is called for each chunk: it may
    wait, and raise to end the read.
    """
    with _reading(log):
        segments = log.segments
        # `segments` was read before this write. So the files now have all batches of these
        # segments, except for later appends to the last one.
        log.write()
        return read_producers(
            _opened(segments, log.offset_next_written, skips_plain=True), throttle=throttle
        )


def _forget_failed_round(log: PartitionLog, files: Files) -> None:
    try:
        unlink_cleaned(files, log.folder)
    except OSError as error:
        raise storage_failed(
            error, f"{log.folder}: files of an earlier round could not be removed"
        ) from error


def _map_dirty(
    log: PartitionLog,
    tools: CleanerTools,
    first_dirty: int,
    first_uncleanable: int,
    history: ProducerHistory,
) -> MappedRange:
    """Maps the dirty range. The map of an empty range is empty, and covers all that is clean."""
    end = max(first_dirty, first_uncleanable)
    dirty = [each for each in log.segments_from(first_dirty) if each.base_offset < end]
    return tools.offset_map.build(
        _opened(dirty if end > first_dirty else [], end, offset=first_dirty),
        first_dirty=first_dirty,
        first_uncleanable=end,
        aborted=history.aborted,
        throttle=tools.pace,
        chunk_bytes=tools.chunk_bytes,
    )


def _opened(
    segments: Sequence[Segment], offset_next: int, *, offset: int = 0, skips_plain: bool = False
) -> Iterator[SegmentChunks]:
    """Opens one segment after the other; the last ends below `offset_next`.

    Reading may begin at `offset`, or, with `skips_plain`, after plain batches
    (`Segment.plain_bytes`).
    """
    for place, segment in enumerate(segments):
        last = place + 1 == len(segments)
        start = segment.plain_bytes if skips_plain else 0
        if 0 < start == segment.written_bytes:
            continue
        with segment.reader() as reader:
            if offset > segment.base_offset:
                start = reader.position_of(offset)
            yield SegmentChunks(
                file=reader.file,
                size_bytes=segment.written_bytes,
                base_offset=segment.base_offset,
                offset_next=offset_next if last else segments[place + 1].base_offset,
                start_position=start,
            )


class _Round:
    """The second pass: filters and swaps one group after the other, from the log's start."""

    def __init__(
        self,
        log: PartitionLog,
        tools: CleanerTools,
        first_uncleanable: int,
        history: ProducerHistory,
        mapped: MappedRange,
        *,
        dry_run: bool,
    ) -> None:
        self.stats = KeepStats()
        self.segments_before = self.segments_after = self.segments_left_alone = 0
        now_ms = tools.clock.now_ms()
        self.rules = KeepRules(
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            first_uncleanable=first_uncleanable,
            last_records=history.active(now_ms=now_ms, expiration_ms=tools.producer_expiration_ms),
        )
        self._log = log
        self._tools = tools
        self._config = log.config  # The config does not change during the round.
        self._mapped = mapped
        self._dry_run = dry_run
        self._transactions = CleanedTransactions(history.aborted)
        # If the dirty range begins inside of a segment that may not be cleaned, that one is left
        # out.
        end = min(mapped.offset_next, first_uncleanable)
        self._segments = [each for each in log.segments if each.base_offset < end]
        last = self._segments[-1:]
        self.last_modified_ms = tools.files.modified_ms(last[0].path) if last else 0

    def clean_groups(self) -> None:
        """Cleans all groups."""
        groups = group_segments(
            [segment_summary(self._tools.files, each) for each in self._segments],
            segment_bytes_max=self._config.segment_bytes_max,
            segment_index_bytes_max=self._config.segment_index_bytes_max,
            first_uncleanable=self.rules.first_uncleanable,
        )
        start = 0
        for group in groups:
            end = start + len(group)
            following = self._segments[end : end + 1]
            offset_next = following[0].base_offset if following else self.rules.first_uncleanable
            self._clean_group(group, self._segments[start:end], offset_next)
            start = end

    def _clean_group(
        self, group: Sequence[SegmentSummary], segments: Sequence[Segment], offset_next: int
    ) -> None:
        writer = CleanedSegmentWriter(
            self._tools.files, self._log.folder, segments[0].base_offset, self._config
        )
        try:
            stats = self._filter(segments, offset_next, writer)
            aborted = self._transactions.take_retained_aborts()
            is_rewritten = is_worth_rewriting(group, is_changed=stats.is_changed)
            stays = not is_rewritten or stats.bytes_retained > 0
            if is_rewritten and not self._dry_run:
                cleaned = writer.finish(
                    modified_ms=self._tools.files.modified_ms(segments[-1].path), aborted=aborted
                )
                self._log.note_superseders(self._mapped.offset_next)
                install(
                    self._tools.files,
                    self._log,
                    [] if cleaned is None else [cleaned],
                    segments,
                    discard=self._tools.discard,
                )
        finally:
            writer.discard()
        self.stats += stats
        self.segments_before += len(segments)
        if not is_rewritten:
            self.segments_left_alone += len(segments)
        self.segments_after += (1 if is_rewritten else len(segments)) if stays else 0

    def _filter(
        self, segments: Sequence[Segment], offset_next: int, writer: CleanedSegmentWriter
    ) -> KeepStats:
        stats = KeepStats()
        for segment, source in zip(segments, _opened(segments, offset_next), strict=True):
            writer.begin_source(segment, source)
            stats += filter_segment(
                source,
                self._tools.offset_map,
                self._mapped,
                self._transactions,
                self.rules,
                _no_write if self._dry_run else writer.write,
                throttle=self._tools.pace,
                chunk_bytes=self._tools.chunk_bytes,
            )
        return stats


def _no_write(_: npt.NDArray[np.uint8]) -> None:
    """The `write` of a dry run does nothing."""


@contextmanager
def _reading(log: PartitionLog) -> Iterator[None]:
    """Turns a read error of the disk into damage. (Writes raise errors of their own.)"""
    try:
        yield
    except OSError as error:
        if not is_unreadable(error):
            raise
        raise CorruptBatch(f"{log.folder} cannot be read: {words_of(error)}", position=0) from error

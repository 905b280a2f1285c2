"""The cleaner's work in each log of a store, kept in memory so that few checks need the disk.

A log's headers are read once, before its first round. They show whether producers wrote to it, and
when its earliest delete horizon comes due; the cleaner of an earlier process may have left one.
Batches appended here have no producers, so a log without producers never gets one. A log with
producers, from a broker's folder, is read again when its segments have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.cleaner.cleaned_transactions import ProducerHistory
from offsetd_storage.cleaner.cleaning_plan import LogSummary, LogToClean, log_to_clean
from offsetd_storage.cleaner.cleaning_round import read_history
from offsetd_storage.cleaner.log_summaries import as_rolled, log_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

_NO_HISTORY: Final = ProducerHistory()
_IDLE_SHARE: Final = 0.5  # An idle log is cleaned above this share of its dirty ratio.


@attrs.frozen(kw_only=True)
class _Survey:
    """The contents of a log's headers, and the segments they were read from."""

    history: ProducerHistory
    segments: Sequence[Segment]
    delete_horizon_ms: int | None


@attrs.frozen(kw_only=True)
class _Summary:
    """A log's summary. It holds as long as its inputs stay the same."""

    segments: Sequence[Segment]  # A log never changes this list; it replaces the list.
    recovery_point: RecoveryPoint
    log_start_offset: int
    checkpoint: int | None
    survey: _Survey | None
    summary: LogSummary


class Candidates:
    """Knows what to clean. One thread at a time surveys a log or notes its rounds; any may read."""

    def __init__(self, store: LogStore, files: Files, checkpoint: CleanerCheckpoint) -> None:
        self._store = store
        self._files = files
        self._checkpoint = checkpoint
        self._surveys: dict[TopicPartition, _Survey] = {}
        self._summaries: dict[TopicPartition, _Summary] = {}

    def needs_survey(self, log: PartitionLog) -> bool:
        """Whether its headers must be read before it is cleaned."""
        survey = self._surveys.get(log.topic_partition)
        return survey is None or (
            survey.history.has_producers and survey.segments is not log.segments
        )

    def survey(self, log: PartitionLog, throttle: Callable[[int], None]) -> None:
        """Reads the headers.

        Raises CorruptBatch, OldMessageFormat, OSError, and the errors of `throttle`.
        """
        segments = log.segments
        history = read_history(log, throttle=throttle)
        self._surveys[log.topic_partition] = _Survey(
            history=history, segments=segments, delete_horizon_ms=history.delete_horizon_ms
        )

    def history(self, topic_partition: TopicPartition) -> ProducerHistory:
        """The known history of a log's producers."""
        survey = self._surveys.get(topic_partition)
        return _NO_HISTORY if survey is None else survey.history

    def delete_horizon_ms(self, topic_partition: TopicPartition) -> int | None:
        """The earliest known delete horizon of a log. At that time a pass is due."""
        survey = self._surveys.get(topic_partition)
        return None if survey is None else survey.delete_horizon_ms

    def note(self, report: CleanReport) -> None:
        """Notes the end of a round over a log that was surveyed."""
        survey = self._surveys[report.topic_partition]
        horizon_ms = report.delete_horizon_ms
        if (
            horizon_ms is not None
            and horizon_ms <= report.started_ms
            and report.offset_next == report.first_dirty
        ):
            # The horizon stays for another reason. The next dirty round checks again.
            horizon_ms = None
        self._surveys[report.topic_partition] = attrs.evolve(survey, delete_horizon_ms=horizon_ms)

    def find(self, log: PartitionLog, *, now_ms: int) -> LogToClean:
        """Finds what there is to clean in a log now."""
        return log_to_clean(self._summary(log), log.config, now_ms=now_ms)

    def gains_if_idle(self, log: PartitionLog, *, is_rolled: bool, now_ms: int) -> bool:
        """Whether an idle log is worth a round over all its closed segments.

        With `is_rolled`, its active segment counts as closed, too. The log must be half as dirty as
        one that takes appends, and all of it old enough to be cleaned. Returns False until its
        headers were read. Raises OSError.
        """
        if self.needs_survey(log):
            return False
        end = log.offset_next if is_rolled else log.segments[-1].base_offset
        found = self._find_rolled(log, now_ms) if is_rolled else self.find(log, now_ms=now_ms)
        ratio_min = log.config.dirty_ratio_min
        is_dirty = ratio_min < 1 and found.cleanable_ratio > _IDLE_SHARE * ratio_min
        return is_dirty and found.first_uncleanable >= end

    def _find_rolled(self, log: PartitionLog, now_ms: int) -> LogToClean:
        topic_partition = log.topic_partition
        summary = log_summary(
            self._files,
            log,
            recovery_point=self._store.recovery_point(topic_partition),
            history=self.history(topic_partition),
            checkpoint=self._checkpoint.first_dirty(topic_partition),
        )
        return log_to_clean(as_rolled(summary, log), log.config, now_ms=now_ms)

    def next_due_ms(self, log: PartitionLog, found: LogToClean) -> int | None:
        """The time at which a log becomes due without an append; None if never.

        The time is by the wall clock. A delete horizon comes then, or the oldest dirty batch gets
        too old.
        """
        times = []
        horizon_ms = self.delete_horizon_ms(log.topic_partition)
        if horizon_ms is not None and not found.horizon_is_due:
            times.append(horizon_ms)
        if found.cleanable_bytes and not found.is_overdue:
            since_ms = oldest_ms(log.segments_from(found.first_dirty)[:-1])
            if since_ms is not None:
                times.append(since_ms + log.config.compaction_lag_ms_max + 1)
        return min(times, default=None)

    def _summary(self, log: PartitionLog) -> LogSummary:
        while True:
            segments = log.segments
            try:
                return self._summary_of(log, segments)
            except FileNotFoundError:
                if log.segments is segments:
                    raise
                # A segment left the log before its file's time was read.

    def _summary_of(self, log: PartitionLog, segments: Sequence[Segment]) -> LogSummary:
        topic_partition = log.topic_partition
        survey = self._surveys.get(topic_partition)
        known = self._summaries.get(topic_partition)
        point = self._store.recovery_point(topic_partition)
        checkpoint = self._checkpoint.first_dirty(topic_partition)
        if (
            known is not None
            and known.segments is segments
            and known.recovery_point == point
            and known.log_start_offset == log.log_start_offset
            and known.checkpoint == checkpoint
            and known.survey is survey
        ):
            return known.summary
        known = _Summary(
            segments=segments,
            recovery_point=point,
            log_start_offset=log.log_start_offset,
            checkpoint=checkpoint,
            survey=survey,
            summary=log_summary(
                self._files,
                log,
                recovery_point=point,
                history=_NO_HISTORY if survey is None else survey.history,
                checkpoint=checkpoint,
                delete_horizon_ms=None if survey is None else survey.delete_horizon_ms,
            ),
        )
        self._summaries[topic_partition] = known
        return known.summary


def oldest_ms(segments: Sequence[Segment]) -> int | None:
    """The earliest of the times of their first batches."""
    times = [each.first_timestamp_ms for each in segments if each.first_timestamp_ms > 0]
    return min(times, default=None)

"""What a round over a log would leave; nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.cleaner.clean import CleanerTools, clean_log, read_history
from offsetd_storage.cleaner.plan import LogSummary, SegmentSummary, log_to_clean
from offsetd_storage.cleaner.summaries import goes_over_any, log_summary
from offsetd_storage.record_batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from offsetd_storage.cleaner.clean import CleanReport
    from offsetd_storage.journal_format import RecoveryPoint
    from offsetd_storage.partition_log import PartitionLog


def preview_round(
    log: PartitionLog,
    tools: CleanerTools,
    *,
    recovery_point: RecoveryPoint | None,
    first_dirty: int | None,
    rolls_active: bool,
) -> CleanReport | None:
    """The report of a round, however clean the log is; None where no segment may be cleaned.

    Nobody cleans it meanwhile. `first_dirty` is what the cleaner's checkpoint says. `rolls_active`:
    as if the active segment had been rolled before; batches that are not in the files yet count for
    nothing. Raises what `clean_log` does.
    """
    history = read_history(log, throttle=tools.pace)
    summary = log_summary(
        tools.files, log, recovery_point=recovery_point, history=history, checkpoint=first_dirty
    )
    if rolls_active and log.segments[-1].size_bytes > 0:
        summary = _as_rolled(summary, log)
    found = log_to_clean(summary, log.config, now_ms=tools.clock.now_ms())
    if not goes_over_any(found, log):
        return None
    return clean_log(
        log,
        tools,
        first_dirty=found.first_dirty,
        first_uncleanable=found.first_uncleanable,
        history=history,
        dry_run=True,
    )


def _as_rolled(summary: LogSummary, log: PartitionLog) -> LogSummary:
    """The summary with a new active segment, and the recovery point at its start."""
    active = SegmentSummary(
        base_offset=log.offset_next,
        size_bytes=0,
        index_bytes=0,
        time_index_bytes=0,
        first_timestamp_ms=NO_TIMESTAMP,
        largest_timestamp_ms=NO_TIMESTAMP,
    )
    return attrs.evolve(
        summary,
        segments=[*summary.segments, active],
        recovery_point=log.offset_next,
        recovery_segment_base_offset=log.offset_next,
    )

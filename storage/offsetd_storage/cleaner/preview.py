"""A preview of a cleaning round: what would be left of a log. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.cleaner.cleaning_plan import log_to_clean
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_log, read_history
from offsetd_storage.cleaner.log_summaries import as_rolled, goes_over_any, log_summary

if TYPE_CHECKING:
    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.log.partition_log import PartitionLog


def preview_round(
    log: PartitionLog,
    tools: CleanerTools,
    *,
    recovery_point: RecoveryPoint | None,
    first_dirty: int | None,
    rolls_active: bool,
) -> CleanReport | None:
    """The report of a round at any ratio; None if no segment may be cleaned.

    No other thread may clean the log during the call. `first_dirty` comes from the cleaner's
    checkpoint. With `rolls_active`, the active segment counts as rolled. Batches that are not in
    the files yet do not count. Raises the errors of `clean_log`.
    """
    history = read_history(log, throttle=tools.pace)
    summary = log_summary(
        tools.files, log, recovery_point=recovery_point, history=history, checkpoint=first_dirty
    )
    if rolls_active and log.segments[-1].size_bytes > 0:
        summary = as_rolled(summary, log)
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

"""A preview of a cleaning round: what would be left of a log. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.cleaner.cleaning_plan import log_to_clean
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_log, read_history
from offsetd_storage.cleaner.summaries import as_rolled, goes_over_any, log_summary

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

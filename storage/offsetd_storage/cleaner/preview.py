"""What a round over a log of an open store would leave; nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.cleaner.clean import CleanerTools, clean_log, read_history
from offsetd_storage.cleaner.offline import as_rolled, goes_over_any
from offsetd_storage.cleaner.plan import log_to_clean
from offsetd_storage.cleaner.summaries import log_summary
from offsetd_storage.errors import CleaningAborted

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.cleaner.clean import CleanReport
    from offsetd_storage.cleaner.log_cleaner import LogCleaner
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

_POLL_SECONDS: Final = 0.02
_WAIT_SECONDS_MAX: Final = 30.0


def preview_round(
    store: LogStore,
    cleaner: LogCleaner,
    topic_partition: TopicPartition,
    tools: CleanerTools,
    *,
    rolls_active: bool,
    sleep: Callable[[float], object],
) -> CleanReport | None:
    """As `LogCleaner.compact` would report; None where no segment may be cleaned.

    Waits while the log is cleaned, and keeps the cleaner away meanwhile. Batches that are not in
    the files yet count for nothing. Raises what `clean_log` does, and PartitionQuarantined;
    CleaningAborted, also where somebody else has the log for too long.
    """
    waited_seconds = 0.0
    while not cleaner.states.begin(topic_partition):
        if waited_seconds >= _WAIT_SECONDS_MAX or tools.should_stop():
            raise CleaningAborted(f"{topic_partition} is being cleaned just now")
        sleep(_POLL_SECONDS)
        waited_seconds += _POLL_SECONDS
    try:
        log = store.log(topic_partition)
        history = read_history(log)
        summary = log_summary(
            tools.files,
            log,
            recovery_point=store.recovery_point(topic_partition),
            history=history,
            checkpoint=cleaner.checkpoint.first_dirty(topic_partition),
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
    finally:
        cleaner.states.end(topic_partition)

"""Describes without a server how much of a folder's log is clean, and what blocks cleaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from offsetd_storage.cleaner.cleaning_plan import log_to_clean
from offsetd_storage.cleaner.cleaning_round import read_history
from offsetd_storage.cleaner.log_summaries import log_summary
from offsetd_storage.cleaner.offline_cleaning import viewed_log
from offsetd_storage.retention.retention_rules import plan_of_log

if TYPE_CHECKING:
    from offsetd_storage.cleaner.cleaning_plan import LogToClean
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.retention.retention_rules import FutureTimestamp
    from offsetd_storage.views.folder_view import LogView


@attrs.frozen(kw_only=True)
class CleaningDescription:
    """The work that the cleaner and retention would do on a log.

    `to_clean` is None for a log that is not compacted.
    """

    start_offset: int
    end_offset: int
    size_bytes: int
    last_stable_offset: int
    delete_horizon_ms: int | None  # The earliest; tombstones can be removed after it.
    to_clean: LogToClean | None
    due_bytes: int  # Bytes that retention would delete.
    blocked: FutureTimestamp | None


def describe_cleaning(
    files: Files,
    view: LogView,
    *,
    config: LogConfig,
    first_dirty: int | None,
    start_offset: int = 0,
    now_ms: int,
) -> CleaningDescription:
    """Reads the whole log; `first_dirty` is what the cleaner's checkpoint says.

    Raises DamageFound, FolderMismatch, CorruptBatch, OldMessageFormat, OSError.
    """
    with viewed_log(files, view, config, log_start_offset=start_offset) as log:
        history = read_history(log)
        summary = log_summary(
            files,
            log,
            recovery_point=view.recovery_point,
            history=history,
            checkpoint=first_dirty,
            delete_horizon_ms=history.delete_horizon_ms,
        )
        plan = plan_of_log(files, log, now_ms=now_ms)
        return CleaningDescription(
            start_offset=log.log_start_offset,
            end_offset=log.offset_next,
            size_bytes=log.size_bytes,
            last_stable_offset=summary.last_stable_offset,
            delete_horizon_ms=history.delete_horizon_ms,
            to_clean=log_to_clean(summary, config, now_ms=now_ms) if config.is_compacted else None,
            due_bytes=plan.freed_bytes,
            blocked=plan.blocked,
        )

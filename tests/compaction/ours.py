"""Rounds of our own cleaner over the folder of a case."""

from pathlib import Path

from cleaned_logs import recovered
from compaction.logs import Case
from offsetd_storage.cleaner.cleaning_plan import log_to_clean
from offsetd_storage.cleaner.cleaning_round import (
    CleanerTools,
    CleanReport,
    clean_log,
    read_history,
)
from offsetd_storage.cleaner.log_summaries import log_summary
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.disk.files import OsFiles

HASH_KEY = bytes(range(16))
BITMAP_BYTES = 128  # So that wide ranges are looked up where it ends.


def config_of(case: Case) -> LogConfig:
    """The case's settings of its topic."""
    settings = case.settings
    return LogConfig(
        cleanup_policy=COMPACT,
        segment_bytes_max=settings.segment_bytes,
        segment_index_bytes_max=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        message_bytes_max=settings.message_bytes_max,
        delete_retention_ms=settings.delete_retention_ms,
        compaction_lag_ms_min=settings.min_compaction_lag_ms,
    )


def clean_once(
    folder: Path, case: Case, number: int, *, first_dirty: int | None, dry_run: bool = False
) -> CleanReport:
    """Round `number` (from 0) of the case, in place; from `first_dirty`, else the log's start."""
    round_, settings = case.rounds[number], case.settings
    tools = CleanerTools(
        files=OsFiles(),
        offset_map=OffsetMap(
            settings.map_slots * SLOT_BYTES,
            load_factor=settings.map_load_factor,
            hash_key=HASH_KEY,
            bitmap_bytes_max=BITMAP_BYTES,
        ),
        clock=ManualClock(round_.now_ms),
        producer_expiration_ms=settings.producer_expiration_ms,
    )
    log = recovered(
        tools.files,
        folder=folder,
        config=config_of(case),
        log_start_offset=case.log_start_offset,
    )
    try:
        history = read_history(log)
        summary = log_summary(
            tools.files, log, recovery_point=None, history=history, checkpoint=first_dirty
        )
        found = log_to_clean(summary, log.config, now_ms=round_.now_ms)
        bound = found.first_uncleanable
        if not dry_run:
            log.sync()  # Indexes that are not there.
        report = clean_log(
            log,
            tools,
            first_dirty=found.first_dirty,
            first_uncleanable=bound if round_.end is None else min(bound, round_.end),
            history=history,
            dry_run=dry_run,
        )
        if not dry_run:
            log.close()
        return report
    finally:
        log.abandon()

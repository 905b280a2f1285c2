"""`offsetd log clean`: compacts the logs of a folder that no server has open, or previews it."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from offsetd_storage.cleaner.cleaning_round import CleanerTools, CleanReport
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.views.folder_view import FolderView, LogView

from offsetd_coordinator.commands.log_folder import (
    failures_told,
    log_starts,
    looked_at,
    selected,
)
from offsetd_coordinator.commands.offline_store import (
    configs_looked_at,
    configured_logs,
    offline_settings,
)
from offsetd_coordinator.commands.outcomes import counted, fail_for_problems, printed
from offsetd_coordinator.commands.terminal import WRONG_USE, Terminal
from offsetd_coordinator.offline.offline_cleaning_run import (
    CleaningSettings,
    cleaned_partitions,
    cleaner_tools,
    previewed_partitions,
)
from offsetd_coordinator.offline.partition_outcomes import PartitionOutcome

LAG: Final = "min.compaction.lag.ms"
COLUMNS: Final = (
    "partition",
    "bytes_before",
    "bytes_after",
    "records_before",
    "records_after",
    "segments_before",
    "segments_after",
    "problem",
)


def clean(
    terminal: Terminal,
    folder: Path,
    topic: str,
    partitions: Sequence[int] | None,
    assignments: Sequence[str],
    *,
    rolls: bool,
    is_dry: bool,
) -> None:
    """Cleans partitions of a topic. A dry run shows what would be kept."""
    with failures_told(terminal):
        settings = offline_settings(terminal, topic, assignments)
        tools = _tools(terminal, settings)
        view, logs = (looked_at if is_dry else selected)(terminal, folder, topic, partitions)
        configs = configs_looked_at(terminal, view, settings)
        config = configs.log_config(topic)
        if not config.is_compacted:
            terminal.fail(f"nothing to clean: cleanup.policy of {topic} is not compact")
        if is_dry:
            outcomes = _preview(terminal, view, logs, config, tools, rolls=rolls)
        else:
            outcomes = _clean(terminal, view, logs, settings, tools, rolls=rolls)
        _conclude(terminal, outcomes, is_dry=is_dry)
        if not any(each.done for each in outcomes):
            ruling = configs.ruling_setting(topic, LAG)
            terminal.note(_why_nothing(config.compaction_lag_ms_min, ruling, rolls=rolls))


def _tools(terminal: Terminal, settings: CleaningSettings) -> CleanerTools:
    try:
        return cleaner_tools(
            settings.cleaner, files=OsFiles(), clock=SystemClock(), random=random.SystemRandom()
        )
    except InvalidSetting as error:
        terminal.fail(str(error), code=WRONG_USE)


def _preview(
    terminal: Terminal,
    view: FolderView,
    logs: Sequence[LogView],
    config: LogConfig,
    tools: CleanerTools,
    *,
    rolls: bool,
) -> list[PartitionOutcome[CleanReport]]:
    with terminal.progress("look") as report:
        outcomes = previewed_partitions(
            view,
            logs,
            tools,
            config,
            log_starts=log_starts(view),
            rolls_active=rolls,
        )
        return printed(terminal, COLUMNS, outcomes, logs, report, _row)


def _clean(
    terminal: Terminal,
    view: FolderView,
    logs: Sequence[LogView],
    settings: CleaningSettings,
    tools: CleanerTools,
    *,
    rolls: bool,
) -> list[PartitionOutcome[CleanReport]]:
    partitions = [log.topic_partition for log in logs]
    with (
        terminal.progress("clean") as report,
        configured_logs(terminal, view, settings, partitions, report) as store,
    ):
        tools = attrs.evolve(tools, files=store.files)
        outcomes = cleaned_partitions(store, view.folder, partitions, tools, rolls_active=rolls)
        return printed(terminal, COLUMNS, outcomes, logs, report, _row)


def _row(report: CleanReport) -> Mapping[str, object]:
    return {
        "bytes_before": report.bytes_read,
        "bytes_after": report.bytes_written,
        "records_before": report.messages_read,
        "records_after": report.messages_written,
        "segments_before": report.segments_before,
        "segments_after": report.segments_after,
    }


def _conclude(
    terminal: Terminal,
    outcomes: Sequence[PartitionOutcome[CleanReport]],
    *,
    is_dry: bool,
) -> None:
    """Prints a summary to stderr; fails if some partitions could not be cleaned."""
    reports = [each.done for each in outcomes if each.done is not None]
    if reports:
        before = sum(each.bytes_read for each in reports)
        after = sum(each.bytes_written for each in reports)
        terminal.note(
            f"{'a pass would save' if is_dry else 'saved'} {before - after} of {before} bytes in"
            f" {counted(len(reports))}"
        )
    for each in reports:
        if each.map_is_full:
            terminal.note(
                f"{each.topic_partition} needs another pass from offset {each.offset_next} on:"
                " log.cleaner.dedupe.buffer.size does not hold all of its keys"
            )
    fail_for_problems(terminal, outcomes, "cannot be cleaned")


def _why_nothing(lag_ms: int, ruling: str, *, rolls: bool) -> str:
    hint = f"; records stay for {lag_ms} ms ({ruling})" if lag_ms else ""
    hint += "" if rolls else "; --roll-active ends those that take appends"
    return f"nothing to clean: no partition has a segment that may be cleaned{hint}"

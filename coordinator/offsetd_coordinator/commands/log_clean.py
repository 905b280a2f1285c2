"""`offsetd log clean`: compacts the log in a folder that no server has open, or says what for."""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from offsetd_storage.cleaner.clean import CleanerTools
from offsetd_storage.clock import SystemClock
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.files import OsFiles
from offsetd_storage.folder_view import FolderView, LogView
from offsetd_storage.log_config import LogConfig

from offsetd_coordinator.commands.log_folder import (
    failures_told,
    log_starts,
    looked_at,
    selected,
)
from offsetd_coordinator.commands.offline_store import (
    config_looked_at,
    configured_store,
    offline_settings,
)
from offsetd_coordinator.commands.terminal import (
    PARTLY_DONE,
    WRONG_USE,
    ProgressReport,
    Terminal,
)
from offsetd_coordinator.log_cleaning import (
    CleaningSettings,
    PartitionOutcome,
    cleaned_partitions,
    cleaner_tools,
    previewed_partitions,
)

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
    """Cleans partitions of a topic; dry, it says what would be left."""
    with failures_told(terminal):
        settings = offline_settings(terminal, topic, assignments)
        tools = _tools(terminal, settings)
        view, logs = (looked_at if is_dry else selected)(terminal, folder, topic, partitions)
        config = config_looked_at(terminal, view, settings)
        if not config.is_compacted:
            terminal.fail(f"nothing to clean: cleanup.policy of {topic} is not compact")
        if is_dry:
            outcomes = _preview(terminal, view, logs, config, tools, rolls=rolls)
        else:
            outcomes = _clean(terminal, view, logs, settings, tools, rolls=rolls)
        _conclude(terminal, outcomes, config, is_dry=is_dry, rolls=rolls)


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
) -> list[PartitionOutcome]:
    with terminal.progress("look") as report:
        outcomes = previewed_partitions(
            view,
            logs,
            tools,
            config,
            log_starts=log_starts(view),
            rolls_active=rolls,
        )
        return _printed(terminal, outcomes, logs, report)


def _clean(
    terminal: Terminal,
    view: FolderView,
    logs: Sequence[LogView],
    settings: CleaningSettings,
    tools: CleanerTools,
    *,
    rolls: bool,
) -> list[PartitionOutcome]:
    partitions = [log.topic_partition for log in logs]
    with (
        terminal.progress("clean") as report,
        configured_store(terminal, view, settings, partitions, report) as store,
    ):
        outcomes = cleaned_partitions(store, view.folder, partitions, tools, rolls_active=rolls)
        return _printed(terminal, outcomes, logs, report)


def _printed(
    terminal: Terminal,
    outcomes: Iterator[PartitionOutcome],
    logs: Sequence[LogView],
    report: ProgressReport,
) -> list[PartitionOutcome]:
    """All outcomes, one for each log; those with something in them are printed as they come."""
    printed: list[PartitionOutcome] = []

    def rows() -> Iterator[Mapping[str, object]]:
        for done, log in enumerate(logs):
            report(done, len(logs), log.folder.name)
            outcome = next(outcomes)
            printed.append(outcome)
            if outcome.report is not None or outcome.problem is not None:
                yield _row(outcome)

    pending = rows()
    terminal.rows(COLUMNS, pending)
    for _ in pending:  # Whoever read the rows may have gone; the work is done all the same.
        pass
    return printed


def _row(outcome: PartitionOutcome) -> Mapping[str, object]:
    row: dict[str, object] = {
        "partition": outcome.topic_partition.partition,
        "problem": outcome.problem,
    }
    report = outcome.report
    if report is not None:
        row |= {
            "bytes_before": report.bytes_read,
            "bytes_after": report.bytes_written,
            "records_before": report.messages_read,
            "records_after": report.messages_written,
            "segments_before": report.segments_before,
            "segments_after": report.segments_after,
        }
    return row


def _conclude(
    terminal: Terminal,
    outcomes: Sequence[PartitionOutcome],
    config: LogConfig,
    *,
    is_dry: bool,
    rolls: bool,
) -> None:
    """Sums up to stderr; fails where there was nothing to clean, or not all could be."""
    reports = [each.report for each in outcomes if each.report is not None]
    problems = [each for each in outcomes if each.problem is not None]
    if reports:
        before = sum(each.bytes_read for each in reports)
        after = sum(each.bytes_written for each in reports)
        terminal.note(
            f"{'a pass would save' if is_dry else 'saved'} {before - after} of {before} bytes in"
            f" {len(reports)} {'partition' if len(reports) == 1 else 'partitions'}"
        )
    for each in reports:
        if each.map_is_full:
            terminal.note(
                f"{each.topic_partition} needs another pass from offset {each.offset_next} on:"
                " log.cleaner.dedupe.buffer.size does not hold all of its keys"
            )
    if problems:
        names = ", ".join(each.topic_partition.folder_name for each in problems)
        terminal.fail(
            f"cannot be cleaned: {names}",
            code=PARTLY_DONE if len(problems) < len(outcomes) else 1,
        )
    if not reports:
        lag_ms = config.compaction_lag_ms_min
        hint = f"; records stay for {lag_ms} ms (min.compaction.lag.ms)" if lag_ms else ""
        hint += "" if rolls else "; --roll-active ends those that take appends"
        terminal.fail(f"nothing to clean: no partition has a segment that may be cleaned{hint}")

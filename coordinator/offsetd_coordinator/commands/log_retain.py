"""`offsetd log retain`: takes away what is due by age and size, in a folder that no server has."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from offsetd_storage.clock import SystemClock
from offsetd_storage.files import OsFiles
from offsetd_storage.folder_view import FolderView, LogView
from offsetd_storage.log_config import LogConfig
from offsetd_storage.retention import Breach

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
from offsetd_coordinator.commands.terminal import PARTLY_DONE, ProgressReport, Terminal
from offsetd_coordinator.log_cleaning import CleaningSettings
from offsetd_coordinator.log_retaining import (
    RetentionOutcome,
    previewed_retention,
    retained_partitions,
)
from offsetd_coordinator.verification.timestamps import shown_time

COLUMNS: Final = (
    "partition",
    "bytes_before",
    "bytes_after",
    "segments_before",
    "segments_after",
    "start_before",
    "start_after",
    "why",
    "blocked_until",
    "problem",
)


def retain(
    terminal: Terminal,
    folder: Path,
    topic: str,
    partitions: Sequence[int] | None,
    assignments: Sequence[str],
    *,
    is_dry: bool,
) -> None:
    """Takes away what is due of a topic's partitions; dry, it says what would go."""
    with failures_told(terminal):
        settings = offline_settings(terminal, topic, assignments)
        view, logs = (looked_at if is_dry else selected)(terminal, folder, topic, partitions)
        config = config_looked_at(terminal, view, settings)
        if is_dry:
            outcomes = _preview(terminal, view, logs, config)
        else:
            outcomes = _retain(terminal, view, logs, settings)
        _conclude(terminal, outcomes, is_dry=is_dry)


def _preview(
    terminal: Terminal, view: FolderView, logs: Sequence[LogView], config: LogConfig
) -> list[RetentionOutcome]:
    with terminal.progress("look") as report:
        outcomes = previewed_retention(
            view, logs, config, files=OsFiles(), clock=SystemClock(), log_starts=log_starts(view)
        )
        return _printed(terminal, outcomes, logs, report)


def _retain(
    terminal: Terminal, view: FolderView, logs: Sequence[LogView], settings: CleaningSettings
) -> list[RetentionOutcome]:
    partitions = [log.topic_partition for log in logs]
    with (
        terminal.progress("retain") as report,
        configured_store(terminal, view, settings, partitions, report) as store,
    ):
        outcomes = retained_partitions(store, partitions, files=OsFiles(), clock=SystemClock())
        return _printed(terminal, outcomes, logs, report)


def _printed(
    terminal: Terminal,
    outcomes: Iterator[RetentionOutcome],
    logs: Sequence[LogView],
    report: ProgressReport,
) -> list[RetentionOutcome]:
    """All outcomes, one for each log; those with something in them are printed as they come."""
    printed: list[RetentionOutcome] = []

    def rows() -> Iterator[Mapping[str, object]]:
        for done, log in enumerate(logs):
            report(done, len(logs), log.folder.name)
            outcome = next(outcomes)
            printed.append(outcome)
            if (row := _row(outcome)) is not None:
                yield row

    pending = rows()
    terminal.rows(COLUMNS, pending)
    for _ in pending:  # Whoever read the rows may have gone; the work is done all the same.
        pass
    return printed


def _row(outcome: RetentionOutcome) -> Mapping[str, object] | None:
    """None where nothing is due, and nothing is wrong."""
    row = {"partition": outcome.topic_partition.partition, "problem": outcome.problem}
    retained = outcome.retained
    if retained is None:
        return row
    plan = retained.plan
    if not plan.deletions and plan.blocked is None:
        return None
    until_ms = None if plan.blocked is None else plan.blocked.blocked_until_ms
    counts = {
        breach.value: sum(each.breach is breach for each in plan.deletions) for breach in Breach
    }
    return row | {
        "bytes_before": retained.size_bytes,
        "bytes_after": retained.size_bytes - plan.freed_bytes,
        "segments_before": retained.segments,
        # Where all go, a new one is begun.
        "segments_after": max(1, retained.segments - len(plan.deletions)),
        "start_before": retained.start_offset,
        "start_after": plan.log_start_offset,
        "why": ", ".join(f"{breach}: {count}" for breach, count in counts.items() if count),
        "blocked_until": None if until_ms is None else shown_time(until_ms),
    }


def _conclude(terminal: Terminal, outcomes: Sequence[RetentionOutcome], *, is_dry: bool) -> None:
    """Sums up to stderr; fails where not all partitions could be looked at."""
    done = [each.retained for each in outcomes if each.retained is not None]
    if done:
        freed = sum(each.plan.freed_bytes for each in done)
        before = sum(each.size_bytes for each in done)
        terminal.note(
            f"{'it would free' if is_dry else 'freed'} {freed} of {before} bytes in"
            f" {len(done)} {'partition' if len(done) == 1 else 'partitions'}"
        )
    for outcome in outcomes:
        if outcome.retained is not None and outcome.retained.plan.blocked is not None:
            terminal.note(f"{outcome.topic_partition}: {outcome.retained.plan.blocked}")
    problems = [each for each in outcomes if each.problem is not None]
    if problems:
        names = ", ".join(each.topic_partition.folder_name for each in problems)
        terminal.fail(
            f"cannot be looked at: {names}",
            code=PARTLY_DONE if len(problems) < len(outcomes) else 1,
        )

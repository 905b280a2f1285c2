"""`offsetd log retain`: deletes segments due by age or size, in a folder without a server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.retention.retention_rules import Breach
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
from offsetd_coordinator.commands.terminal import Terminal
from offsetd_coordinator.offline.offline_cleaning_run import CleaningSettings
from offsetd_coordinator.offline.offline_retention import (
    Retained,
    previewed_retention,
    retained_partitions,
)
from offsetd_coordinator.offline.partition_outcomes import PartitionOutcome
from offsetd_coordinator.offline.verification.timestamp_check import shown_time

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
    """Deletes the due segments of a topic's partitions. A dry run shows what would be deleted."""
    with failures_told(terminal):
        settings = offline_settings(terminal, topic, assignments)
        view, logs = (looked_at if is_dry else selected)(terminal, folder, topic, partitions)
        config = configs_looked_at(terminal, view, settings).log_config(topic)
        if is_dry:
            outcomes = _preview(terminal, view, logs, config)
        else:
            outcomes = _retain(terminal, view, logs, settings)
        _conclude(terminal, outcomes, is_dry=is_dry)


def _preview(
    terminal: Terminal, view: FolderView, logs: Sequence[LogView], config: LogConfig
) -> list[PartitionOutcome[Retained]]:
    with terminal.progress("look") as report:
        outcomes = previewed_retention(
            view, logs, config, files=OsFiles(), clock=SystemClock(), log_starts=log_starts(view)
        )
        return printed(terminal, COLUMNS, outcomes, logs, report, _row)


def _retain(
    terminal: Terminal, view: FolderView, logs: Sequence[LogView], settings: CleaningSettings
) -> list[PartitionOutcome[Retained]]:
    partitions = [log.topic_partition for log in logs]
    with (
        terminal.progress("retain") as report,
        configured_logs(terminal, view, settings, partitions, report) as store,
    ):
        outcomes = retained_partitions(store, partitions, files=store.files, clock=SystemClock())
        return printed(terminal, COLUMNS, outcomes, logs, report, _row)


def _row(retained: Retained) -> Mapping[str, object] | None:
    """The row of a partition; None if nothing is due and nothing is blocked."""
    plan = retained.plan
    if not plan.deletions and plan.blocked is None:
        return None
    until_ms = None if plan.blocked is None else plan.blocked.blocked_until_ms
    counts = {
        breach.value: sum(each.breach is breach for each in plan.deletions) for breach in Breach
    }
    return {
        "bytes_before": retained.size_bytes,
        "bytes_after": retained.size_bytes - plan.freed_bytes,
        "segments_before": retained.segments,
        # If all segments are deleted, a new one is created.
        "segments_after": max(1, retained.segments - len(plan.deletions)),
        "start_before": retained.start_offset,
        "start_after": plan.log_start_offset,
        "why": ", ".join(f"{breach}: {count}" for breach, count in counts.items() if count),
        "blocked_until": None if until_ms is None else shown_time(until_ms),
    }


def _conclude(
    terminal: Terminal, outcomes: Sequence[PartitionOutcome[Retained]], *, is_dry: bool
) -> None:
    """Prints a summary to stderr; fails if some partitions could not be checked."""
    done = [each.done for each in outcomes if each.done is not None]
    if done:
        freed = sum(each.plan.freed_bytes for each in done)
        before = sum(each.size_bytes for each in done)
        terminal.note(
            f"{'it would free' if is_dry else 'freed'} {freed} of {before} bytes in"
            f" {counted(len(done))}"
        )
    for outcome in outcomes:
        if outcome.done is not None and outcome.done.plan.blocked is not None:
            terminal.note(f"{outcome.topic_partition}: {outcome.done.plan.blocked}")
    fail_for_problems(terminal, outcomes, "cannot be checked")

"""`offsetd log clean`: compacts the log in a folder that no server has open, or says what for."""

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer
from offsetd_storage.clock import SystemClock
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.files import OsFiles
from offsetd_storage.folder_view import FolderView, LogView
from offsetd_storage.store_config import OFFSETS_TOPIC

from offsetd_coordinator.commands.log_folder import (
    DEFAULT_FOLDER,
    FolderOption,
    PartitionOption,
    failures_told,
    log_starts,
    looked_at,
    selected,
)
from offsetd_coordinator.commands.terminal import (
    PARTLY_DONE,
    WRONG_USE,
    ProgressReport,
    Terminal,
)
from offsetd_coordinator.settings_sources import SettingsError

if TYPE_CHECKING:
    from offsetd_storage.cleaner.clean import CleanerTools
    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.log_cleaning import CleaningSettings, PartitionOutcome

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


def register(group: typer.Typer, terminal: Terminal) -> None:
    """Adds `clean` to the group `log`."""

    @group.command("clean")
    def clean(
        data_dir: FolderOption = DEFAULT_FOLDER,
        partition: PartitionOption = None,
        roll_active: Annotated[
            bool,
            typer.Option("--roll-active", help="End the segments that take appends before."),
        ] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Change nothing; say what would be left.")
        ] = False,
        assignments: Annotated[
            list[str] | None,
            typer.Option("--set", help="One setting; may be repeated.", metavar="NAME=VALUE"),
        ] = None,
    ) -> None:
        """Compact the offsets log of a server, or a broker, that is stopped.

        The folder is locked and recovered, as at a start, each partition is cleaned once, however
        clean it is, and the folder is closed. Numbers are of the segments that may be cleaned: the
        one that takes appends may not. Settings are those of serve, log.cleaner.* and a topic's
        (delete.retention.ms, ...). Exits with 3 if only some partitions could be cleaned.
        """
        with failures_told(terminal):
            settings, tools = _settings(terminal, assignments or ())
            if not settings.store.log.is_compacted:
                terminal.fail(f"nothing to clean: cleanup.policy of {OFFSETS_TOPIC} is not compact")
            find = looked_at if dry_run else selected
            view, logs = find(terminal, data_dir, OFFSETS_TOPIC, partition)
            if dry_run:
                outcomes = _preview(terminal, view, logs, settings, tools, rolls=roll_active)
            else:
                outcomes = _clean(terminal, view, logs, settings, tools, rolls=roll_active)
            _conclude(terminal, outcomes, settings, is_dry=dry_run, rolls=roll_active)


def _settings(
    terminal: Terminal, assignments: Sequence[str]
) -> "tuple[CleaningSettings, CleanerTools]":
    # Loaded only now: the other commands need none of it.
    from offsetd_coordinator.log_cleaning import (  # noqa: PLC0415
        cleaner_tools,
        read_cleaning_settings,
    )

    try:
        settings = read_cleaning_settings(assignments, os.environ)
        tools = cleaner_tools(
            settings.cleaner, files=OsFiles(), clock=SystemClock(), random=random.SystemRandom()
        )
    except (SettingsError, InvalidSetting) as error:
        terminal.fail(str(error), code=WRONG_USE)
    return settings, tools


def _preview(
    terminal: Terminal,
    view: FolderView,
    logs: Sequence[LogView],
    settings: "CleaningSettings",
    tools: "CleanerTools",
    *,
    rolls: bool,
) -> "list[PartitionOutcome]":
    from offsetd_coordinator.log_cleaning import previewed_partitions  # noqa: PLC0415

    with terminal.progress("look") as report:
        outcomes = previewed_partitions(
            view.folder,
            logs,
            tools,
            settings.store.log,
            log_starts=log_starts(view),
            rolls_active=rolls,
        )
        return _printed(terminal, outcomes, logs, report)


def _clean(
    terminal: Terminal,
    view: FolderView,
    logs: Sequence[LogView],
    settings: "CleaningSettings",
    tools: "CleanerTools",
    *,
    rolls: bool,
) -> "list[PartitionOutcome]":
    from offsetd_coordinator.log_cleaning import cleaned_partitions  # noqa: PLC0415

    with (
        terminal.progress("clean") as report,
        _opened(terminal, view, settings, report) as store,
    ):
        partitions = [log.topic_partition for log in logs]
        outcomes = cleaned_partitions(store, view.folder, partitions, tools, rolls_active=rolls)
        return _printed(terminal, outcomes, logs, report)


@contextmanager
def _opened(
    terminal: Terminal, view: FolderView, settings: "CleaningSettings", report: ProgressReport
) -> "Iterator[LogStore]":
    """Locks and recovers the folder; closes it, or after a failure leaves it as a crash would."""
    from offsetd_storage.log_store import LogStore  # noqa: PLC0415

    from offsetd_coordinator.server import StartFailed, raise_descriptor_limit  # noqa: PLC0415

    try:
        raise_descriptor_limit(view.offsets_partitions, 0)
    except StartFailed as error:
        terminal.fail(str(error))
    store = LogStore.open(
        OsFiles(),
        view.folder,
        settings.store,
        clock=SystemClock(),
        random=random.SystemRandom(),
        on_progress=lambda at: report(at.partitions_done, at.partitions, "checking"),
    )
    for warning in store.report.warnings:
        terminal.note(f"found while opening: {warning}")
    try:
        yield store
    except BaseException:
        store.abandon()
        raise
    store.close()


def _printed(
    terminal: Terminal,
    outcomes: "Iterator[PartitionOutcome]",
    logs: Sequence[LogView],
    report: ProgressReport,
) -> "list[PartitionOutcome]":
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


def _row(outcome: "PartitionOutcome") -> Mapping[str, object]:
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
    outcomes: "Sequence[PartitionOutcome]",
    settings: "CleaningSettings",
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
        lag_ms = settings.store.log.compaction_lag_ms_min
        hint = f"; records stay for {lag_ms} ms (min.compaction.lag.ms)" if lag_ms else ""
        hint += "" if rolls else "; --roll-active ends those that take appends"
        terminal.fail(f"nothing to clean: no partition has a segment that may be cleaned{hint}")

"""`offsetd log describe|dump|verify`: looks at a data folder without a server, and changes nothing.

What does is in `log_clean`, `log_retain` and `log_recreate`. Beside a running server only what lies
below the recovery points is looked at. A broker's folder is as good as one of ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

import typer
from offsetd_storage.cleaner.checkpoint import CleanerCheckpoint
from offsetd_storage.clock import SystemClock
from offsetd_storage.errors import StorageError
from offsetd_storage.files import OsFiles
from offsetd_storage.folder_view import FolderView, LogView
from offsetd_storage.quarantine import DamageFound
from offsetd_storage.store_config import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.commands import log_clean, log_recreate, log_retain
from offsetd_coordinator.commands.log_folder import (
    DEFAULT_FOLDER,
    FolderOption,
    PartitionOption,
    TopicOption,
    failures_told,
    log_starts,
    looked_at,
)
from offsetd_coordinator.commands.terminal import ProgressReport, Terminal
from offsetd_coordinator.dump import dump_log
from offsetd_coordinator.live_folder import seen_steadily
from offsetd_coordinator.log_description import describe_log
from offsetd_coordinator.verification.findings import Finding
from offsetd_coordinator.verification.folder import folder_findings
from offsetd_coordinator.verification.logs import LogVerifier

if TYPE_CHECKING:
    from offsetd_storage.topic_configs import TopicConfigs

    from offsetd_coordinator.verification.timestamps import FutureTimestamps

DecoderOption = Annotated[
    bool, typer.Option("--offsets-decoder", help="Show the records' keys and values, as JSON.")
]

DESCRIBE_COLUMNS: Final = (
    "partition",
    "start_offset",
    "end_offset",
    "segments",
    "bytes",
    "batches",
    "records",
    "problem",
)
CLEANING_COLUMNS: Final = (
    "partition",
    "start_offset",
    "end_offset",
    "bytes",
    "cleanable_bytes",
    "dirty_ratio",
    "first_dirty",
    "first_uncleanable",
    "last_stable",
    "delete_horizon",
    "due_bytes",
    "blocked_until",
    "problem",
)
VERIFY_COLUMNS: Final = ("severity", "file", "position", "reason")


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the group `log`."""
    group = typer.Typer(help="The log in a data folder, without a server.", no_args_is_help=True)
    app.add_typer(group, name="log")

    @group.command("describe")
    def describe(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        cleaning: Annotated[
            bool, typer.Option("--cleaning", help="Show what cleaning and retention have to do.")
        ] = False,
    ) -> None:
        """Show the offsets, segments, bytes and records of each partition.

        Every batch is checked; the first bad one is named under PROBLEM. With --cleaning: how much
        was written since the last round, up to where the next one may go, from when on the first
        tombstones can go, what retention would take away, and until when a timestamp from the
        future blocks it. What a round would save is said by clean --dry-run.
        """
        with failures_told(terminal):
            view, logs = looked_at(terminal, data_dir, topic, partition)
            if cleaning:
                terminal.rows(CLEANING_COLUMNS, _cleaning_descriptions(view, logs))
            else:
                terminal.rows(DESCRIBE_COLUMNS, _descriptions(view, logs))

    @group.command("dump")
    def dump(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
        offsets_decoder: DecoderOption = False,
    ) -> None:
        """Print every batch and record.

        The lines are those of Kafka's DumpLogSegments, whatever --output says.
        """
        with failures_told(terminal):
            _, logs = looked_at(terminal, data_dir, topic, partition)
            dumps = (dump_log(OsFiles(), log, decode_offsets=offsets_decoder) for log in logs)
            terminal.lines(chain.from_iterable(dumps))

    _register_verify(group, terminal)
    log_clean.register(group, terminal)
    log_retain.register(group, terminal)
    log_recreate.register(group, terminal)


def _register_verify(group: typer.Typer, terminal: Terminal) -> None:
    @group.command("verify")
    def verify(
        data_dir: FolderOption = DEFAULT_FOLDER,
        topic: TopicOption = OFFSETS_TOPIC,
        partition: PartitionOption = None,
    ) -> None:
        """Check every batch, record, index and checkpoint.

        Where each group lies is checked too. Prints file, position and reason of everything that is
        wrong, and exits with 1 if there is anything damaged. A batch from the future, which holds
        back retention, is a warning: it is as it was written, and there is nothing to repair.
        """
        with failures_told(terminal):
            _verify(terminal, *looked_at(terminal, data_dir, topic, partition))


def _descriptions(view: FolderView, logs: Sequence[LogView]) -> Iterator[Mapping[str, object]]:
    files = OsFiles()
    starts = log_starts(view)
    for log in logs:
        start_offset = starts.get(log.topic_partition, 0)
        description = seen_steadily(
            files,
            view,
            log,
            partial(describe_log, files, start_offset=start_offset),
            is_doubtful=lambda found: found.problem is not None,
        )
        yield {
            "partition": log.topic_partition.partition,
            "start_offset": description.start_offset,
            "end_offset": description.end_offset,
            "segments": description.segments,
            "bytes": description.size_bytes,
            "batches": description.batches,
            "records": description.records,
            "problem": description.problem,
        }


def _cleaning_descriptions(
    view: FolderView, logs: Sequence[LogView]
) -> Iterator[Mapping[str, object]]:
    from offsetd_coordinator.cleaning_description import describe_cleaning  # noqa: PLC0415
    from offsetd_coordinator.verification.timestamps import shown_time  # noqa: PLC0415

    files, starts = OsFiles(), log_starts(view)
    configs, now_ms = _configs(files, view), SystemClock().now_ms()
    checkpoint = CleanerCheckpoint(files, view.folder)
    for log in logs:
        row: dict[str, object] = {"partition": log.topic_partition.partition}
        try:
            look = partial(
                describe_cleaning,
                files,
                config=configs.log_config(log.topic_partition.topic),
                first_dirty=checkpoint.first_dirty(log.topic_partition),
                start_offset=starts.get(log.topic_partition, 0),
                now_ms=now_ms,
            )
            found = seen_steadily(files, view, log, look)
        except DamageFound as damage:
            yield row | {"problem": str(damage.of(log.topic_partition))}
            continue
        except StorageError as error:
            yield row | {"problem": str(error)}
            continue
        row |= {
            "start_offset": found.start_offset,
            "end_offset": found.end_offset,
            "bytes": found.size_bytes,
            "last_stable": found.last_stable_offset,
            "due_bytes": found.due_bytes,
        }
        if found.to_clean is not None:
            row |= {
                "cleanable_bytes": found.to_clean.cleanable_bytes,
                "dirty_ratio": round(found.to_clean.cleanable_ratio, 3),
                "first_dirty": found.to_clean.first_dirty,
                "first_uncleanable": found.to_clean.first_uncleanable,
            }
        if found.delete_horizon_ms is not None:
            row["delete_horizon"] = shown_time(found.delete_horizon_ms)
        if found.blocked is not None:
            row["blocked_until"] = shown_time(found.blocked.blocked_until_ms)
        yield row


def _configs(files: OsFiles, view: FolderView) -> "TopicConfigs":
    """The settings of a server without any of its own, and those that are in the folder."""
    from offsetd_coordinator.folder_settings import configs_of_folder  # noqa: PLC0415
    from offsetd_coordinator.settings import Settings  # noqa: PLC0415

    configs = Settings().configs
    with suppress(StorageError, DamageFound):  # That is told where the log itself is checked.
        return configs_of_folder(files, view, configs)
    return configs


def _verify(terminal: Terminal, view: FolderView, logs: Sequence[LogView]) -> None:
    verifiers: dict[TopicPartition, LogVerifier] = {}
    findings: list[Finding] = []

    def rows(report: ProgressReport) -> Iterator[Mapping[str, object]]:
        for finding in _findings(view, logs, verifiers, report):
            findings.append(finding)
            yield {
                "severity": "warning" if finding.is_warning else "damage",
                "file": finding.file,
                "position": finding.position,
                "reason": finding.reason,
            }

    with terminal.progress("verify") as report:
        terminal.rows(VERIFY_COLUMNS, rows(report))
    batches = sum(verifier.batches for verifier in verifiers.values())
    records = sum(verifier.records for verifier in verifiers.values())
    unknown = sum(verifier.unknown_records for verifier in verifiers.values())
    terminal.note(
        f"checked {records} records in {batches} batches of {len(verifiers)} partitions"
        + (f"; {unknown} records are of types that are not ours" if unknown else "")
    )
    warnings = sum(finding.is_warning for finding in findings)
    if warnings:
        terminal.note("1 warning" if warnings == 1 else f"{warnings} warnings")
    damages = len(findings) - warnings
    if damages:
        terminal.fail("1 finding" if damages == 1 else f"{damages} findings")


def _findings(
    view: FolderView,
    logs: Sequence[LogView],
    verifiers: dict[TopicPartition, LogVerifier],
    report: ProgressReport,
) -> Iterator[Finding]:
    """Everything that is wrong; fills `verifiers` on its way."""
    files = OsFiles()
    future_of = _future_of(files, view)
    for done, log in enumerate(logs):
        report(done, len(logs), log.folder.name)
        is_offsets = log.topic_partition.topic == OFFSETS_TOPIC
        partitions = view.offsets_partitions if is_offsets else None
        look = partial(
            _verified,
            files,
            partitions=partitions,
            future=future_of(log),
            is_live=not view.is_settled,
        )
        verifier, found = seen_steadily(files, view, log, look, is_doubtful=_has_damage)
        verifiers[log.topic_partition] = verifier
        yield from found
    yield from folder_findings(files, view, verifiers)


def _verified(
    files: OsFiles,
    log: LogView,
    *,
    partitions: int | None,
    future: "FutureTimestamps | None",
    is_live: bool,
) -> tuple[LogVerifier, Iterable[Finding]]:
    """Findings are kept until it is clear that a server changed nothing under them."""
    verifier = LogVerifier(files, log, partitions=partitions, future=future)
    return verifier, list(verifier.findings()) if is_live else verifier.findings()


def _has_damage(verified: tuple[LogVerifier, Iterable[Finding]]) -> bool:
    return not all(finding.is_warning for finding in verified[1])


def _future_of(files: OsFiles, view: FolderView) -> "Callable[[LogView], FutureTimestamps | None]":
    """What to say of a log's timestamps; nothing where the log is not retained by age."""
    from offsetd_coordinator.verification.timestamps import FutureTimestamps  # noqa: PLC0415

    configs, now_ms = _configs(files, view), SystemClock().now_ms()

    def future(log: LogView) -> FutureTimestamps | None:
        config = configs.log_config(log.topic_partition.topic)
        return FutureTimestamps(config=config, now_ms=now_ms) if config.is_deleted else None

    return future

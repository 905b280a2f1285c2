"""`offsetd log describe|dump|verify`: the read-only commands and their output."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.configuration.topic_configs import TopicConfigs
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import StorageError
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView, LogView
from offsetd_storage.views.live_folder import seen_steadily

from offsetd_coordinator.commands.log_folder import failures_told, log_starts, looked_at
from offsetd_coordinator.commands.terminal import ProgressReport, Terminal
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.offline.cleaning_description import describe_cleaning
from offsetd_coordinator.offline.folder_settings import configs_of_folder
from offsetd_coordinator.offline.log_description import describe_log
from offsetd_coordinator.offline.log_dump import dump_log
from offsetd_coordinator.offline.verification.findings import Finding
from offsetd_coordinator.offline.verification.folder_check import folder_findings
from offsetd_coordinator.offline.verification.log_check import LogVerifier
from offsetd_coordinator.offline.verification.timestamp_check import FutureTimestamps, shown_time

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
DESCRIBE_DROPPABLE: Final = ("segments", "batches", "records")
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
CLEANING_DROPPABLE: Final = (
    "blocked_until",
    "delete_horizon",
    "last_stable",
    "first_uncleanable",
    "first_dirty",
    "start_offset",
    "due_bytes",
)
VERIFY_COLUMNS: Final = ("severity", "file", "position", "reason")


def describe(
    terminal: Terminal,
    folder: Path,
    topic: str,
    partitions: Sequence[int] | None,
    *,
    cleaning: bool,
) -> None:
    """Prints a row for each partition."""
    with failures_told(terminal):
        view, logs = looked_at(terminal, folder, topic, partitions)
        if cleaning:
            configs = _configs(OsFiles(), view, tell=terminal.note)
            rows = _cleaning_descriptions(view, logs, configs)
            terminal.rows(CLEANING_COLUMNS, rows, droppable=CLEANING_DROPPABLE)
        else:
            rows = _descriptions(view, logs)
            terminal.rows(DESCRIBE_COLUMNS, rows, droppable=DESCRIBE_DROPPABLE)


def dump(
    terminal: Terminal,
    folder: Path,
    topic: str,
    partitions: Sequence[int] | None,
    *,
    decode_offsets: bool,
) -> None:
    """Prints the lines of Kafka's DumpLogSegments."""
    with failures_told(terminal):
        _, logs = looked_at(terminal, folder, topic, partitions)
        dumps = (dump_log(OsFiles(), log, decode_offsets=decode_offsets) for log in logs)
        terminal.lines(chain.from_iterable(dumps))


def verify(
    terminal: Terminal, folder: Path, topic: str | None, partitions: Sequence[int] | None
) -> None:
    """Prints a row for each finding. Fails if something is damaged."""
    with failures_told(terminal):
        _verify(terminal, *looked_at(terminal, folder, topic, partitions))


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
    view: FolderView, logs: Sequence[LogView], configs: TopicConfigs
) -> Iterator[Mapping[str, object]]:
    files, starts = OsFiles(), log_starts(view)
    now_ms = SystemClock().now_ms()
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


def _configs(
    files: OsFiles, view: FolderView, *, tell: Callable[[str], object] = lambda _: None
) -> TopicConfigs:
    """Default settings, changed by the dynamic settings in the folder.

    If these cannot be read, `tell` gets a message that defaults apply.
    """
    configs = Settings().configs
    try:
        return configs_of_folder(files, view, configs)
    except (StorageError, DamageFound) as error:
        tell(f"not all settings in the folder can be read, so the defaults apply: {error}")
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
        f"checked {_counted(records, 'record')} in {_counted(batches, 'batch', 'batches')} of"
        f" {_counted(len(verifiers), 'partition')}"
        + (f"; records of unknown types: {unknown}" if unknown else "")
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
    """All findings. Adds the verifier of each log to `verifiers`."""
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
    future: FutureTimestamps | None,
    is_live: bool,
) -> tuple[LogVerifier, Iterable[Finding]]:
    """The verifier of a log and its findings.

    If a server may be running, the list of findings is complete, so that the caller can verify the
    log again if the server has changed it during the check.
    """
    verifier = LogVerifier(files, log, partitions=partitions, future=future)
    return verifier, list(verifier.findings()) if is_live else verifier.findings()


def _has_damage(verified: tuple[LogVerifier, Iterable[Finding]]) -> bool:
    return not all(finding.is_warning for finding in verified[1])


def _future_of(files: OsFiles, view: FolderView) -> Callable[[LogView], FutureTimestamps | None]:
    """A function that returns the check of a log's timestamps, or None if age is not checked."""
    configs, now_ms = _configs(files, view), SystemClock().now_ms()

    def future(log: LogView) -> FutureTimestamps | None:
        config = configs.log_config(log.topic_partition.topic)
        return FutureTimestamps(config=config, now_ms=now_ms) if config.is_deleted else None

    return future


def _counted(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"

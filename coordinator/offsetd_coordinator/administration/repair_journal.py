"""The file `offsetd.repairs` has the audit events of repairs that the audit log lacks.

A repair writes its event there before it rewrites a partition. So a repair that is broken off, or
one while the audit log is damaged, is not forgotten: whoever opens the folder next puts the events
into the audit log, and removes the file. The file has a version, a line for each event, its time in
milliseconds before it, and a checksum of the lines before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.files import replace_file
from offsetd_storage.errors import (
    NewerFormat,
    RecordTooLarge,
    StorageError,
    StorageFailed,
    may_pass,
    words_of,
)
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log_store import LogStore

REPAIRS_NAME: Final = "offsetd.repairs"
REPAIRS_VERSION: Final = 1
_VERSION: Final = "format.version="


class RepairJournalDamaged(StorageError):
    """The file cannot be read, so the audit log will lack the events in it."""


@attrs.frozen
class Completion:
    """The events that the audit log has now, and why it has not the others."""

    events: tuple[AuditEvent, ...] = ()
    problem: str = ""


def read_begun(files: Files, folder: Path) -> tuple[AuditEvent, ...]:
    """The events in the file. Raises RepairJournalDamaged, NewerFormat, OSError."""
    path = folder / REPAIRS_NAME
    if not files.exists(path):
        return ()
    content = files.read_bytes(path)
    body, _, _ = content.rpartition(b"checksum=")
    if content != _with_checksum(body):
        raise RepairJournalDamaged(_damaged(path, "its checksum is wrong"))
    first, *lines = body.splitlines()
    version = first.decode().removeprefix(_VERSION)
    if not version.isdigit() or int(version) > REPAIRS_VERSION:
        raise NewerFormat.of(path, version, REPAIRS_VERSION)
    try:
        return tuple(_event(line) for line in lines)
    except (ValueError, UndecodableRecord) as error:
        raise RepairJournalDamaged(_damaged(path, str(error))) from error


def write_begun(files: Files, folder: Path, events: Sequence[AuditEvent]) -> None:
    """Replaces the file, durably. Raises OSError."""
    lines = [f"{_VERSION}{REPAIRS_VERSION}\n".encode()]
    lines += [b"%d %s\n" % (each.time_ms, each.encode()) for each in events]
    replace_file(files, folder / REPAIRS_NAME, _with_checksum(b"".join(lines)))


def complete_repairs(store: LogStore, folder: Path) -> Completion:
    """Puts the events of the file into the audit log, and then removes the file.

    Events that the audit log does not take stay in the file, and the others go on. A crash in
    between repeats events. Raises StorageFailed, OSError.
    """
    files = store.files
    try:
        events = read_begun(files, folder)
    except (RepairJournalDamaged, NewerFormat) as error:
        return Completion(problem=str(error))
    if not events:
        return Completion()
    done: list[AuditEvent] = []
    left: list[AuditEvent] = []
    problem = ""
    for event in events:
        try:
            _append_fitting(store, event)
        except StorageFailed:
            raise
        except StorageError as error:
            left.append(event)
            problem = problem or words_of(error)
        else:
            done.append(event)
    if left:
        problem = f"{_kept(left)}: {problem}"
    if done:
        problem += _leave_only(files, folder, left)
    return Completion(events=tuple(done), problem=problem)


def append_event(store: LogStore, event: AuditEvent) -> None:
    """Appends an event to the audit log, and flushes it.

    Raises PartitionQuarantined, StorageFull, StorageFailed.
    """
    record = Record(key=None, value=event.encode(), offset=0, timestamp_ms=event.time_ms)
    store.produce(AUDIT_PARTITION, encode_batch([record], base_offset=0))
    store.flush()


def _append_fitting(store: LogStore, event: AuditEvent) -> None:
    """Appends an event, without its lists if it is too large for the audit log with them."""
    try:
        append_event(store, event)
    except RecordTooLarge:
        what = {key: each for key, each in event.what.items() if not isinstance(each, list)}
        append_event(store, attrs.evolve(event, what={**what, "lists_left_out": True}))


def _leave_only(files: Files, folder: Path, left: Sequence[AuditEvent]) -> str:
    """Takes from the file what the audit log has. Returns why that was not possible, or ""."""
    try:
        if left:
            write_begun(files, folder, left)
        else:
            files.unlink(folder / REPAIRS_NAME)
            files.sync_folder(folder)
    except OSError as error:
        if not may_pass(error):
            raise
        return f"; {REPAIRS_NAME} could not be shortened, and entries may repeat: {error.strerror}"
    return ""


def partition_of(event: AuditEvent) -> str:
    """The partition that a repair's event is about."""
    return f"{event.topic}-{event.what.get('partition')}"


def _kept(events: Sequence[AuditEvent]) -> str:
    of_what = ", ".join(sorted({partition_of(each) for each in events}))
    return (
        f"the audit log has no entry of the repair of {of_what}; it is kept in {REPAIRS_NAME} until"
        f" the audit log can take it (offsetd log repair --topic {AUDIT_PARTITION.topic})"
    )


def _damaged(path: Path, why: str) -> str:
    return (
        f"{path} cannot be read ({why}): the audit log lacks the repairs that are in it; move the"
        " file away"
    )


def _event(line: bytes) -> AuditEvent:
    time_ms, _, document = line.partition(b" ")
    return AuditEvent.decode(document, time_ms=int(time_ms))


def _with_checksum(body: bytes) -> bytes:
    return body + f"checksum={checksum(body):08x}\n".encode()

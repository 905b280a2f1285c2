"""Checks of a data folder's other files: checkpoints, the journal, quarantine files."""

from collections.abc import Iterator, Mapping
from typing import Final

from offsetd_storage.disk.files import Files
from offsetd_storage.errors import CorruptCheckpoint, JournalDamaged
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.folder.cleaner_checkpoint import CLEANER_CHECKPOINT, read_first_dirty
from offsetd_storage.folder.folder_format import PROPERTIES_NAME, PROPERTIES_REMEDY, read_properties
from offsetd_storage.journal.journal import JOURNAL_NAMES
from offsetd_storage.journal.journal_recovery import recover_journal
from offsetd_storage.log.kafka_checkpoints import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from offsetd_storage.recovery.quarantine import (
    Damage,
    claims_of,
    list_quarantine_files,
    quarantine_path,
)
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView

from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.offline.verification.findings import Finding
from offsetd_coordinator.offline.verification.log_check import LogVerifier

CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEANER_CHECKPOINT,
    "replication-offset-checkpoint",
)
_JOURNAL_ATTEMPTS: Final = 3


def folder_findings(
    files: Files, view: FolderView, logs: Mapping[TopicPartition, LogVerifier]
) -> Iterator[Finding]:
    """The problems of the folder's files outside its logs. `logs` were verified before."""
    for name in CHECKPOINTS:
        yield from _checkpoint_findings(files, view, name, logs)
    yield from _missing_findings(files, view)
    yield from _journal_findings(files, view)
    yield from _quarantine_findings(files, view)


def _checkpoint_findings(
    files: Files, view: FolderView, name: str, logs: Mapping[TopicPartition, LogVerifier]
) -> Iterator[Finding]:
    path = view.folder / name
    read = read_first_dirty if name == CLEANER_CHECKPOINT else read_offset_checkpoint
    try:
        offsets = read(files, path)
    except CorruptCheckpoint as error:
        yield Finding(file=name, reason=str(error).removeprefix(f"{path}: "))
        return
    if not view.is_settled:
        return  # A running server may have written it after the logs were verified.
    for topic_partition, offset in offsets.items():
        log = logs.get(topic_partition)
        if log is None:
            continue
        first = log.log_start_offset if name == LOG_START_CHECKPOINT else 0
        if not first <= offset <= log.offset_next:
            line = f"{topic_partition.topic} {topic_partition.partition} {offset}\n".encode()
            yield Finding(
                file=name,
                position=files.read_bytes(path).find(line),
                reason=f"{topic_partition}: {offset} is outside the log, which ranges from"
                f" {log.log_start_offset} to {log.offset_next}",
            )


def _missing_findings(files: Files, view: FolderView) -> Iterator[Finding]:
    """Missing files and folders. A start refuses the folder, quarantines a partition, or warns."""
    has_journal = any(files.exists(view.folder / name) for name in JOURNAL_NAMES)
    if has_journal and not files.exists(view.folder / PROPERTIES_NAME):
        reason = f"it is missing, and a start is refused: {PROPERTIES_REMEDY}"
        yield Finding(file=PROPERTIES_NAME, reason=reason)
    for each in view.missing:
        begins_anew = each == AUDIT_PARTITION and view.is_settled
        reason = "the folder is missing, and records were written to it"
        yield Finding(
            file=each.folder_name,
            reason=f"{reason}: the next start recreates it empty" if begins_anew else reason,
            is_warning=begins_anew,
        )


def _journal_findings(files: Files, view: FolderView) -> Iterator[Finding]:
    """Damage of the journal.

    A running server changes the journal while it is read. So a problem counts only if two attempts
    found it.
    """
    reasons: list[str] = []
    for _ in range(_JOURNAL_ATTEMPTS):
        properties = read_properties(files, view.folder)
        if properties is None:
            return
        begun = properties.journal_begun
        try:
            journal = recover_journal(
                files, view.folder, properties.identity, begun=begun, settle=False
            )
        except JournalDamaged as error:
            reasons.append(str(error))
            if reasons.count(str(error)) > 1:
                named = [name for name in JOURNAL_NAMES if str(error).startswith(name)]
                yield Finding(file=(named or JOURNAL_NAMES)[0], reason=str(error))
                return
        else:
            doubts = () if journal is None else journal.warnings
            reasons += doubts
            for doubt in set(doubts):
                if reasons.count(doubt) > 1:
                    yield Finding(file=JOURNAL_NAMES[0], reason=doubt, is_warning=True)
                    return
            if not doubts:
                return


def _quarantine_findings(files: Files, view: FolderView) -> Iterator[Finding]:
    partitions = list_quarantine_files(files, view.folder)
    for topic_partition, claim in claims_of(files, view.folder, partitions).items():
        name = quarantine_path(view.folder, topic_partition).name
        if isinstance(claim, Damage):
            yield Finding(file=name, reason=claim.reason)
        else:
            reason = (
                f"{topic_partition} was quarantined at the last start: it is served again once its"
                " damage is gone, or `offsetd log repair` has kept what is whole"
            )
            yield Finding(file=name, reason=reason, is_warning=True)

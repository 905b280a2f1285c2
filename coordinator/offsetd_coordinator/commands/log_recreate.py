"""`offsetd log recreate`: replaces partitions, damaged or not, by empty ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import CorruptCheckpoint, StorageError
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.log.kafka_checkpoints import RECOVERY_POINT_CHECKPOINT
from offsetd_storage.log.segment_files import LOG_SUFFIX
from offsetd_storage.recovery.quarantine import DamageFound, list_quarantine_files
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView, LogView

from offsetd_coordinator.commands.log_folder import failures_told, looked_into
from offsetd_coordinator.commands.offline_store import offline_settings, opened_store
from offsetd_coordinator.commands.terminal import WRONG_USE, Terminal
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)
from offsetd_coordinator.offline.verification.log_check import LogVerifier

COLUMNS: Final = ("topic", "partition", "bytes_lost", "start_offset")
_WITHOUT_SETTINGS: Final = (
    f"{CONFIG_PARTITION.topic} has the settings that were changed while a server ran, and the"
    " access rules of `offsetd acls`. Without them the next start uses the settings given to serve,"
    " and defaults: give it those that matter (--set NAME=VALUE) before it expires, cleans or"
    " deletes by the defaults. With security.acl.enable only super.users may do anything, until"
    " rules are added"
)


def recreate(
    terminal: Terminal,
    folder: Path,
    topic: str,
    partitions: Sequence[int] | None,
    assignments: Sequence[str],
    *,
    is_dry: bool,
) -> None:
    """Replaces partitions by empty ones. A dry run shows what would be lost.

    The caller checks that the user gave --execute.
    """
    with failures_told(terminal):
        if topic == OFFSETS_TOPIC and not partitions:
            terminal.fail(f"name the --partition of {topic} to recreate", code=WRONG_USE)
        asked = [checked(terminal, topic, each) for each in sorted(set(partitions or [0]))]
        view = looked_into(folder)
        _refuse_unknown(terminal, view, asked)
        lost = {each: _bytes_of(folder / each.folder_name) for each in asked}
        for each in _undamaged(view, asked):
            terminal.note(f"{each.folder_name} is not damaged: log verify finds no problem in it")
        if is_dry:
            rows = [_row(each, lost[each], None) for each in asked]
            terminal.rows(COLUMNS, rows)
            terminal.note(
                f"it would lose {sum(lost.values())} bytes; nothing was changed: repeat with"
                " --execute to do it"
            )
            if CONFIG_PARTITION in asked:
                terminal.note(_WITHOUT_SETTINGS)
            return
        settings = offline_settings(terminal, OFFSETS_TOPIC, assignments)
        with (
            terminal.progress("recreate") as report,
            opened_store(terminal, view, settings, report, recreated=asked) as store,
        ):
            starts = {each: store.log(each).log_start_offset for each in asked}
        terminal.rows(COLUMNS, [_row(each, lost[each], starts[each]) for each in asked])
        if CONFIG_PARTITION in asked:
            terminal.note(_WITHOUT_SETTINGS)


def checked(terminal: Terminal, topic: str, partition: int) -> TopicPartition:
    """The partition with this topic and number. Fails if no such partition can exist."""
    try:
        return TopicPartition.checked(topic, partition)
    except ValueError as error:
        terminal.fail(str(error), code=WRONG_USE)


def _refuse_unknown(terminal: Terminal, view: FolderView, asked: Sequence[TopicPartition]) -> None:
    """Fails for a partition that the folder does not know, so that a typo creates no partition.

    The folder of a known partition may be missing.
    """
    known = known_partitions(view)
    for each in asked:
        if each not in known:
            terminal.fail(f"{view.folder} has nothing of {each.folder_name}; nothing was changed")


def known_partitions(view: FolderView) -> set[TopicPartition]:
    """The partitions that a folder has, or should have."""
    files = OsFiles()
    try:
        named = read_offset_checkpoint(files, view.folder / RECOVERY_POINT_CHECKPOINT)
    except CorruptCheckpoint:
        named = {}
    return {
        CONFIG_PARTITION,
        AUDIT_PARTITION,
        *(TopicPartition(OFFSETS_TOPIC, each) for each in range(view.offsets_partitions)),
        *(log.topic_partition for log in view.logs),
        *list_quarantine_files(files, view.folder),
        *named,
    }


def _undamaged(view: FolderView, asked: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions that are not quarantined, and in which `log verify` finds no problem."""
    files = OsFiles()
    chosen = set(asked).difference(list_quarantine_files(files, view.folder))
    logs = (log for log in view.logs if log.topic_partition in chosen)
    return [log.topic_partition for log in logs if _is_valid(files, log)]


def _is_valid(files: OsFiles, log: LogView) -> bool:
    try:
        return all(
            found.is_warning for found in LogVerifier(files, log, partitions=None).findings()
        )
    except (OSError, StorageError, DamageFound):
        return False


def _bytes_of(folder: Path) -> int:
    """The size of all segments in a partition's folder. The folder may be missing or damaged."""
    files = OsFiles()
    if not files.exists(folder):
        return 0
    names = (name for name in files.list_folder(folder) if name.endswith(LOG_SUFFIX))
    return sum(files.size(folder / name) for name in names)


def _row(topic_partition: TopicPartition, lost: int, start: int | None) -> dict[str, object]:
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "bytes_lost": lost,
        "start_offset": start,
    }

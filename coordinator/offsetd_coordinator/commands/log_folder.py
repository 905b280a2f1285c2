"""Folder and partition selection, shared by the commands of `offsetd log`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import CorruptCheckpoint, StorageError, words_of
from offsetd_storage.folder.checkpoint_files import read_offset_checkpoint
from offsetd_storage.folder.unfinished_restore import refuse_unfinished
from offsetd_storage.log.kafka_checkpoints import LOG_START_CHECKPOINT
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView, LogView, read_folder

from offsetd_coordinator.commands.terminal import Terminal
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)


@contextmanager
def failures_told(terminal: Terminal) -> Iterator[None]:
    """A context that converts errors of an unreadable folder to one line for the user."""
    try:
        yield
    except StorageError as error:
        terminal.fail(str(error))
    except OSError as error:
        terminal.fail(words_of(error))


def looked_into(folder: Path) -> FolderView:
    """What is in a folder. Raises FolderMismatch if a restore into it has not ended."""
    files = OsFiles()
    refuse_unfinished(files, folder)
    return read_folder(files, folder)


def selected(
    terminal: Terminal, folder: Path, topic: str, partitions: Sequence[int] | None
) -> tuple[FolderView, list[LogView]]:
    """The selected logs; fails if one of them is missing."""
    view = looked_into(folder)
    by_partition = {
        log.topic_partition.partition: log
        for log in view.logs
        if log.topic_partition.topic == topic
    }
    if not by_partition:
        terminal.fail(f"{folder} has no partition of {topic}")
    for partition in partitions or ():
        if partition not in by_partition:
            terminal.fail(f"{folder} has no folder {topic}-{partition}")
    return view, [by_partition[each] for each in sorted(set(partitions or by_partition))]


def looked_at(
    terminal: Terminal, folder: Path, topic: str | None, partitions: Sequence[int] | None
) -> tuple[FolderView, list[LogView]]:
    """The selected logs, for a command that takes no lock. Prints a note if a part is not read.

    Without a topic and partitions, these are all logs that a server would open.
    """
    view, logs = selected(terminal, folder, topic or OFFSETS_TOPIC, partitions)
    if topic is None and not partitions:
        own = (CONFIG_PARTITION, AUDIT_PARTITION)
        logs = [*logs, *(log for log in view.logs if log.topic_partition in own)]
    if not view.is_settled:
        terminal.note(
            "the journal does not say that this folder was closed (a server has it open, or was"
            " killed, or the journal is damaged): only the log below its recovery points is read"
        )
    return view, logs


def log_starts(view: FolderView) -> dict[TopicPartition, int]:
    """The start offsets in the folder's checkpoint; empty if it cannot be read."""
    try:
        return read_offset_checkpoint(OsFiles(), view.folder / LOG_START_CHECKPOINT)
    except CorruptCheckpoint:
        return {}  # `verify` reports it.

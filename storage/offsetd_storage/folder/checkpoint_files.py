"""Kafka's text checkpoints.

A checkpoint of a data folder (`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`,
`cleaner-offset-checkpoint`) has one line for each partition of every topic in the folder:

    0                        version
    <count>
    <topic> <partition> <offset>

The checkpoint of a partition (`leader-epoch-checkpoint`) has one line for each leader epoch, in
rising order:

    0                        version
    <count>
    <epoch> <start offset>

A missing or empty file has no entries, as in Kafka (`CheckpointFile`), which leaves empty files.
The files have no checksum, so a changed digit can stay unnoticed. Nothing may rely on them alone.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from offsetd_storage.disk.files import read_start, replace_file
from offsetd_storage.errors import CorruptCheckpoint, NewerFormat, is_unreadable
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files

CHECKPOINT_VERSION: Final = 0
_BYTES_MAX = 64 << 20  # Enough for hundreds of thousands of partitions.
_VERSION = str(CHECKPOINT_VERSION)
_VERSION_BYTES_MAX = 32
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


def read_offset_checkpoint(files: Files, path: Path) -> dict[TopicPartition, int]:
    """The offset of each partition, in the file's order.

    Raises CorruptCheckpoint for bytes that are not in Kafka's format, and NewerFormat.
    """
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in _read_entries(files, path, fields=3):
        topic_partition = TopicPartition(topic, _number(path, partition, _INT32_MAX))
        if topic_partition in offsets:
            raise CorruptCheckpoint(f"{path}: {topic_partition} has two entries")
        offsets[topic_partition] = _number(path, offset, _INT64_MAX)
    return offsets


def write_offset_checkpoint(
    files: Files, path: Path, offsets: Mapping[TopicPartition, int]
) -> None:
    """Replaces the checkpoint by these entries, in this order, and syncs it.

    The file is for the whole data folder, so `offsets` must have the entries of all partitions.
    """
    _write_entries(
        files,
        path,
        (f"{one.topic} {one.partition} {offset}" for one, offset in offsets.items()),
    )


def read_leader_epochs(files: Files, path: Path) -> list[tuple[int, int]]:
    """The leader epochs of a partition, each with its first offset, both rising.

    Raises CorruptCheckpoint for bytes that are not in Kafka's format, and NewerFormat.
    """
    epochs = [
        (_number(path, epoch, _INT32_MAX), _number(path, start_offset, _INT64_MAX))
        for epoch, start_offset in _read_entries(files, path, fields=2)
    ]
    for (epoch, start_offset), (next_epoch, next_start_offset) in pairwise(epochs):
        if next_epoch <= epoch or next_start_offset < start_offset:
            raise CorruptCheckpoint(f"{path}: leader epoch {next_epoch} is out of order")
    return epochs


def write_leader_epochs(files: Files, path: Path, epochs: Iterable[tuple[int, int]]) -> None:
    """Replaces the leader epochs of a partition, and syncs the file."""
    _write_entries(files, path, (f"{epoch} {start_offset}" for epoch, start_offset in epochs))


def refuse_newer_checkpoint(files: Files, path: Path) -> None:
    """Raises NewerFormat if a checkpoint is of a newer version. Other flaws are left to readers."""
    if not files.exists(path):
        return
    try:
        start = read_start(files, path, _VERSION_BYTES_MAX)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return
    _check_version(path, start.partition(b"\n")[0].decode("utf-8", errors="replace"))


def _check_version(path: Path, version: str) -> None:
    if _NUMBER.fullmatch(version) and int(version) > CHECKPOINT_VERSION:
        raise NewerFormat.of(path, version, CHECKPOINT_VERSION)


def _read_entries(files: Files, path: Path, *, fields: int) -> list[list[str]]:
    if not files.exists(path):
        return []
    content = read_start(files, path, _BYTES_MAX + 1)
    if not content:
        return []
    if len(content) > _BYTES_MAX:
        raise CorruptCheckpoint(f"{path}: larger than {_BYTES_MAX} bytes")
    try:
        version, *lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path}: not text") from error
    _check_version(path, version)
    if version != _VERSION:
        raise CorruptCheckpoint(f"{path}: version {version!r}, expected {_VERSION!r}")
    count = _number(path, lines[0] if lines else "", _INT32_MAX)
    entries = [line.split(" ") for line in lines[1:]]
    if len(entries) != count:
        raise CorruptCheckpoint(f"{path}: {len(entries)} entries, {count} announced")
    for entry in entries:
        if len(entry) != fields or not all(entry):
            raise CorruptCheckpoint(f"{path}: malformed entry {' '.join(entry)!r}")
    return entries


def _write_entries(files: Files, path: Path, entries: Iterable[str]) -> None:
    lines = list(entries)
    content = "".join(f"{line}\n" for line in [_VERSION, str(len(lines)), *lines])
    replace_file(files, path, content.encode("utf-8"))


def _number(path: Path, text: str, largest: int) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > largest:
        raise CorruptCheckpoint(f"{path}: {text!r} is not a number from 0 to {largest}")
    return int(text)

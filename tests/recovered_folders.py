"""Folders for the tests of recovery: filled, damaged, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import (
    FOLDER,
    P0,
    P1,
    P2,
    SMALL,
    append,
    commit,
    opened,
    tree,
)
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.log_store import LogStoreConfig
from partition_logs import batch_of

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

LARGE = LogStoreConfig(log=LogConfig(), journal_file_bytes=1 << 16, journal_header_bytes=512)


def filled(*, closed: bool = False, commits: int = 8) -> tuple[SimulatedFiles, LogStore]:
    """A folder in which each of three partitions has some commits, most above R, and written."""
    files = SimulatedFiles()
    store = opened(files, attrs.evolve(SMALL, journal_file_bytes=8192))
    for topic_partition in (P0, P1, P2):
        for _ in range(3):
            commit(store, topic_partition, size_bytes=150)
    store.advance_recovery_points()
    for _ in range(commits):
        for topic_partition in (P0, P1, P2):
            append(store, topic_partition, size_bytes=110)
        store.flush()
    write_segments(store)
    if closed:
        store.close()
    return files, store


def write_segments(store: LogStore) -> None:
    """As whoever reads has it done; so there is something above R that recovery has to judge."""
    for log in store.logs.values():
        log.write()


def log_path(topic_partition: TopicPartition, base_offset: int = 0, suffix: str = ".log") -> Path:
    return segment_path(FOLDER / topic_partition.folder_name, base_offset, suffix)


def overwrite(files: SimulatedFiles, path: Path, position: int, content: bytes) -> None:
    before = files.read_bytes(path)
    changed = before[:position] + content + before[position + len(content) :]
    files.put_durable(path, changed)


def put_tree(files: SimulatedFiles, source: Path, target: Path) -> None:
    for path in sorted(source.rglob("*")):
        if path.is_file():
            files.put_durable(target / path.relative_to(source), path.read_bytes())


def refused(files: SimulatedFiles, error: type[Exception], **options: object) -> str:
    """Opening the folder raises, and leaves every byte of it."""
    files = files.kill()
    before = tree(files)
    with pytest.raises(error) as caught:
        opened(files, attrs.evolve(SMALL, **options))
    assert tree(files) == before
    return str(caught.value)


def put(files: SimulatedFiles, path: Path, content: bytes, position: int = 0) -> None:
    """As another process would that is then killed: seen, but not synced."""
    file = files.open(path, create=True)
    file.pwrite([content], position)
    file.close()


def committed(*, closed: bool, commits: int = 3, size_bytes: int = 100) -> SimulatedFiles:
    """A folder with some commits in each partition, left by a process that stopped or died."""
    files = SimulatedFiles()
    store = opened(files)
    for _ in range(commits):
        for topic_partition in (P0, P1, P2):
            commit(store, topic_partition, size_bytes=size_bytes)
    write_segments(store)
    if closed:
        store.close()
    return files.kill()


def idle() -> SimulatedFiles:
    """A folder whose server died when everything was below the recovery points."""
    files = committed(closed=True)
    store = opened(files)
    commit(store, P0)
    store.advance_recovery_points()
    return files.kill()


def broker_appends(files: SimulatedFiles, *, leader_epoch: int, synced: bool = False) -> bytes:
    """A broker appends to P0, in a second segment too, and is killed."""
    batches = [batch_of(offset, leader_epoch=leader_epoch, size_bytes=100) for offset in (3, 4)]
    put(files, log_path(P0), batches[0], 3 * 100)
    put(files, log_path(P0, 4), batches[1])
    if synced:
        for base_offset in (0, 4):
            file = files.open(log_path(P0, base_offset))
            file.sync()
            file.close()
    files.sync_folder(FOLDER / P0.folder_name)
    return b"".join(batches)

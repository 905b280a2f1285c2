"""However many segments a log has, it holds few descriptors, and none for long."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFile, OsFiles
from partition_logs import append, created, everything, opened

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.log.partition_log import PartitionLog

ONE_BATCH_EACH = LogConfig(segment_bytes_max=100, index_interval_bytes=0)
SEGMENTS = 60


class WatchedFiles(OsFiles):
    """Knows how many descriptors of files below a folder were open at most."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.most = 0

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OsFile:
        file = super().open(path, create=create, read_only=read_only)
        self.most = max(self.most, self.held())
        return file

    def held(self) -> int:
        """Descriptors that are open now."""
        held = 0
        for link in descriptors():
            with suppress(FileNotFoundError):  # Another thread's, closed meanwhile.
                held += os.path.realpath(link).startswith(f"{self.folder}/")
        return held


def descriptors() -> list[str]:
    return [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]


@pytest.fixture
def files(tmp_path: Path) -> WatchedFiles:
    return WatchedFiles(tmp_path)


def log_of(files: WatchedFiles, segments: int) -> PartitionLog:
    """A log that was synced after each segment."""
    log = created(files, files.folder / "log", config=ONE_BATCH_EACH)
    for _ in range(segments):
        append(log, size_bytes=100)
        log.write()
        log.sync()
    assert len(log.segments) == segments
    return log


@pytest.mark.slow
def test_segments_that_are_synced_hold_no_descriptor(files: WatchedFiles) -> None:
    log = log_of(files, SEGMENTS)
    assert files.held() == 1
    assert files.most <= 3
    log.close()
    assert files.held() == 0


def test_segments_hold_theirs_until_they_are_synced(files: WatchedFiles) -> None:
    log = log_of(files, 1)
    for _ in range(4):
        append(log, size_bytes=100)
    log.write()
    assert files.held() == 5
    log.sync()
    assert files.held() == 1
    log.close()


@pytest.mark.slow
@pytest.mark.parametrize("synced", [True, False])
def test_opening_reading_and_syncing_a_long_log_takes_one_descriptor_at_a_time(
    files: WatchedFiles, synced: bool
) -> None:
    log_of(files, SEGMENTS).close()
    for path in (files.folder / "log").glob("*.index"):
        path.write_bytes(b"something else")  # The first sync has to see to every segment.
    files.most = 0
    log = opened(files, files.folder / "log", config=ONE_BATCH_EACH, synced=synced)
    assert files.held() == 0
    assert len(everything(log)) == SEGMENTS * 100
    assert sum(end for _, end in log.read_chunks(1000)) == SEGMENTS * 100
    assert log.read(SEGMENTS // 2, bytes_max=1) != b""
    assert log.offset_for_timestamp(0) == 0
    assert (files.held(), files.most) == (0, 1)
    log.sync()
    append(log, size_bytes=100)
    assert files.most <= 3
    log.close()
    assert files.held() == 0


def test_a_read_that_is_given_up_gives_its_descriptor_back(files: WatchedFiles) -> None:
    log = log_of(files, 5)
    chunks = log.read_chunks(10)
    next(chunks)
    assert files.held() == 2
    del chunks
    assert files.held() == 1
    log.close()

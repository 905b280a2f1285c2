"""Folders with files that nobody wrote in good faith, or that no longer mean what they did."""

from __future__ import annotations

import os
import resource
import struct
import zlib
from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import FOLDER, P0, SMALL, commit, opened
from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderMismatch, JournalDamaged
from offsetd_storage.journal.journal import JOURNAL_NAMES
from offsetd_storage.journal.journal_format import HEADER, HEADER_MAGIC, PREFIX
from offsetd_storage.log.segment_files import segment_path
from partition_logs import NOW_MS, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE = attrs.evolve(SMALL, partitions=1)


def log_path(base_offset: int = 0, suffix: str = ".log"):
    return segment_path(FOLDER / P0.folder_name, base_offset, suffix)


def damage_of(files: SimulatedFiles) -> str:
    """What a start says of the only partition, which it must leave as it is."""
    before = files.read_bytes(log_path(min_base(files)))
    with_damage = opened(files, ONE)
    assert set(with_damage.quarantined) == {P0}
    assert files.read_bytes(log_path(min_base(files))) == before
    reason = with_damage.quarantined[P0].reason
    with_damage.abandon()
    return reason


def min_base(files: SimulatedFiles) -> int:
    names = files.list_folder(FOLDER / P0.folder_name)
    return min(int(name[:20]) for name in names if name.endswith(".log"))


@pytest.mark.parametrize("base_offset", [1000, 3_000_000_000, 2**61])
def test_damage_in_the_middle_is_damage_however_high_the_offsets_are(base_offset: int) -> None:
    files = SimulatedFiles()
    batches = [batch_of(base_offset + number, size_bytes=100) for number in range(5)]
    content = bytearray(b"".join(batches))
    content[180] ^= 1
    files.put_durable(log_path(base_offset), bytes(content))
    assert "BAD_CHECKSUM" in damage_of(files)


@pytest.mark.parametrize("base_offset", [1000, 3_000_000_000])
def test_damage_at_the_end_of_a_segment_is_damage_if_another_follows(base_offset: int) -> None:
    files = SimulatedFiles()
    content = bytearray(batch_of(base_offset, size_bytes=100))
    content[80] ^= 1
    files.put_durable(log_path(base_offset), bytes(content))
    files.put_durable(log_path(base_offset + 1), batch_of(base_offset + 1))
    assert "BAD_CHECKSUM" in damage_of(files)


@pytest.mark.parametrize("position", [0, 3, 7])
def test_a_last_batch_whose_offset_alone_is_wrong_is_damage(position: int) -> None:
    files = SimulatedFiles()
    content = bytearray(batch_of(10) + batch_of(11))
    content[len(batch_of(10)) + position] ^= 8  # The checksum does not cover it.
    files.put_durable(log_path(10), bytes(content))
    assert "BAD_OFFSET" in damage_of(files)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("before", [b"", batch_of(0)], ids=["nothing", "a batch"])
def test_messages_of_older_formats_are_not_cut_as_a_torn_tail(magic: int, before: bytes) -> None:
    def message(offset: int) -> bytes:
        timestamp = struct.pack(">q", NOW_MS) if magic else b""
        covered = (
            struct.pack(">BB", magic, 0) + timestamp + struct.pack(">i1si1s", 1, b"k", 1, b"v")
        )
        return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered

    files = SimulatedFiles()
    files.put_durable(log_path(), before + b"".join(map(message, range(1, 9))))
    assert "a batch is damaged" in damage_of(files)


def test_a_tail_with_too_many_false_headers_is_not_cut() -> None:
    size = 4 << 20
    tail = bytearray(size)
    for at in range(0, size - 200, 32):
        tail[at + 8 : at + 12] = (size - at - 100).to_bytes(4, "big")
        tail[at + 16] = 2
    files = SimulatedFiles()
    files.put_durable(log_path(), batch_of(0) + b"\0" * 5 + bytes(tail))
    assert "BAD_LENGTH" in damage_of(files)


# On a real file system, whose files have any size without taking room.


def enlarged(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def with_wrong_count_of_points(folder: Path) -> None:
    """A journal header whose checksum is right."""
    for path in (folder / name for name in JOURNAL_NAMES):
        raw = bytearray(path.read_bytes())
        size = int.from_bytes(raw[20:24], "big")
        if not raw.startswith(HEADER_MAGIC):
            continue
        points_at = PREFIX.size + HEADER.size
        raw[points_at : points_at + 4] = (10**6).to_bytes(4, "big")
        raw[16:20] = checksum(bytes(raw[:16]) + bytes(raw[20:size])).to_bytes(4, "big")
        path.write_bytes(raw)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder of one partition with one commit, closed clean."""
    store = opened(OsFiles(), ONE, folder=tmp_path / "offsets")
    commit(store, P0, size_bytes=300)
    store.close()
    return tmp_path / "offsets"


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: enlarged(folder / P0.folder_name / f"{0:020d}.index"),
        lambda folder: enlarged(folder / P0.folder_name / f"{0:020d}.timeindex"),
        lambda folder: enlarged(folder / P0.folder_name / "leader-epoch-checkpoint"),
        lambda folder: enlarged(folder / "recovery-point-offset-checkpoint"),
        lambda folder: enlarged(folder / "log-start-offset-checkpoint"),
        lambda folder: (folder / P0.folder_name / f"{'9' * 20}.log").touch(),
        lambda folder: (folder / P0.folder_name / f"{'9' * 20}.index").touch(),
        lambda folder: (folder / "__consumer_offsets-99999999999").mkdir(),
        lambda folder: (folder / "__consumer_offsets-\u0661").mkdir(),
    ],
    ids=range(9),
)
def test_what_is_not_the_logs_own_is_put_right_or_left_alone(
    folder: Path, change: Callable[[Path], None]
) -> None:
    change(folder)
    store = opened(OsFiles(), ONE, folder=folder)
    assert store.logs[P0].offset_next == 1
    commit(store, P0)
    store.close()
    assert opened(OsFiles(), ONE, folder=folder).logs[P0].offset_next == 2


def test_a_segment_larger_than_any_is_damage(folder: Path) -> None:
    enlarged(folder / P0.folder_name / f"{0:020d}.log")
    store = opened(OsFiles(), ONE, folder=folder)
    assert "more than a segment" in store.quarantined[P0].reason
    store.abandon()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda folder: enlarged(folder / JOURNAL_NAMES[0]), None),
        (lambda folder: enlarged(folder / JOURNAL_NAMES[1]), JournalDamaged),
        (lambda folder: enlarged(folder / "offsetd.properties"), FolderMismatch),
        (with_wrong_count_of_points, JournalDamaged),
        (lambda folder: (folder / "__consumer_offsets-99999999").mkdir(), FolderMismatch),
    ],
    ids=["journal with a header", "journal without", "properties", "points", "partition"],
)
def test_what_cannot_be_is_an_error_that_says_so_or_does_no_harm(
    folder: Path, change: Callable[[Path], None], error: type[Exception] | None
) -> None:
    change(folder)
    if error is not None:
        with pytest.raises(error):
            opened(OsFiles(), ONE, folder=folder)
    else:
        opened(OsFiles(), ONE, folder=folder).close()


def test_a_new_folder_does_not_become_one_of_millions_of_partitions(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-99999999").mkdir()
    with pytest.raises(FolderMismatch, match="100000000 partitions"):
        opened(OsFiles(), attrs.evolve(SMALL, partitions=None), folder=tmp_path)
    assert not (tmp_path / "offsetd.properties").exists()


@pytest.mark.slow
def test_a_long_log_is_opened_and_served_with_few_descriptors(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = max(map(int, os.listdir("/proc/self/fd")))
    config = attrs.evolve(ONE, journal_file_bytes=1 << 16)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (held + 60, limits[1]))
        store = opened(OsFiles(), config, folder=tmp_path / "offsets")
        for number in range(200):  # A segment each.
            commit(store, P0, size_bytes=600)
            if number % 10 == 0:
                store.advance_recovery_points()
        assert len(store.logs[P0].segments) == 200
        store.abandon()
        store = opened(OsFiles(), config, folder=tmp_path / "offsets")
        assert sum(end for _, end in store.logs[P0].read_chunks(1000)) >= 200 * 600
        store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

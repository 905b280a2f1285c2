"""Folders with files that nobody wrote in good faith, or that no longer mean what they did."""

from __future__ import annotations

import struct
import zlib

import attrs
import pytest
from log_stores import FOLDER, P0, SMALL, opened
from offsetd_storage.segment import segment_path
from offsetd_storage.simulated_files import SimulatedFiles
from partition_logs import NOW_MS, batch_of

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
    assert "BAD_MAGIC" in damage_of(files)


def test_a_tail_with_too_many_false_headers_is_not_cut() -> None:
    size = 4 << 20
    tail = bytearray(size)
    for at in range(0, size - 200, 32):
        tail[at + 8 : at + 12] = (size - at - 100).to_bytes(4, "big")
        tail[at + 16] = 2
    files = SimulatedFiles()
    files.put_durable(log_path(), batch_of(0) + b"\0" * 5 + bytes(tail))
    assert "BAD_LENGTH" in damage_of(files)

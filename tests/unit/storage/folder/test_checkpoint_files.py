"""Kafka's text checkpoints: a broker's are read, ours are byte for byte like them."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import CorruptCheckpoint, NewerFormat
from offsetd_storage.folder.checkpoint_files import (
    read_leader_epochs,
    read_offset_checkpoint,
    write_leader_epochs,
    write_offset_checkpoint,
)
from offsetd_storage.topic_partition import TopicPartition
from simulated_disks import disk_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.disk.files import Files

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.1.1" / "data"
PATH = Path("/recovery-point-offset-checkpoint")
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("recovery-point-offset-checkpoint", 123),
        ("log-start-offset-checkpoint", 0),
        ("cleaner-offset-checkpoint", 0),
    ],
)
def test_a_brokers_checkpoint_is_read_and_written_back_byte_for_byte(name: str, count: int) -> None:
    content = (GOLDEN / name).read_bytes()
    disk = disk_with(content, PATH)
    offsets = read_offset_checkpoint(disk, PATH)
    assert len(offsets) == count
    write_offset_checkpoint(disk, PATH, offsets)
    assert disk.read_bytes(PATH) == (content or b"0\n0\n")


def test_a_brokers_recovery_points_are_those_of_its_lines() -> None:
    offsets = read_offset_checkpoint(OsFiles(), GOLDEN / "recovery-point-offset-checkpoint")
    assert offsets[TopicPartition("__consumer_offsets", 13)] == 4
    assert offsets[TopicPartition("__transaction_state", 42)] == 0


def test_a_brokers_leader_epochs_are_read_and_written_back_byte_for_byte() -> None:
    content = (GOLDEN / "__consumer_offsets-0" / "leader-epoch-checkpoint").read_bytes()
    disk = disk_with(content, PATH)
    epochs = read_leader_epochs(disk, PATH)
    assert epochs == [(0, 0)]
    write_leader_epochs(disk, PATH, epochs)
    assert disk.read_bytes(PATH) == content


@pytest.mark.parametrize("content", [None, b"", b"0\n0\n", b"0\n0"])
def test_a_missing_or_empty_checkpoint_has_no_entries(content: bytes | None) -> None:
    disk = SimulatedFiles() if content is None else disk_with(content, PATH)
    assert read_offset_checkpoint(disk, PATH) == {}
    assert read_leader_epochs(disk, PATH) == []


def test_entries_of_other_topics_survive_a_change_of_ours() -> None:
    disk = disk_with(b"0\n3\nother 7 12\n__consumer_offsets 0 5\nx-y 1 0\n", PATH)
    offsets = read_offset_checkpoint(disk, PATH)
    offsets[TopicPartition("__consumer_offsets", 0)] = 6
    offsets[TopicPartition("__consumer_offsets", 1)] = 2
    write_offset_checkpoint(disk, PATH, offsets)
    assert disk.read_bytes(PATH) == (
        b"0\n4\nother 7 12\n__consumer_offsets 0 6\nx-y 1 0\n__consumer_offsets 1 2\n"
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"x\n0\n", "version 'x'"),
        (b"\n", "version ''"),
        (b"0", "'' is not a number"),
        (b"0\n", "'' is not a number"),
        (b"0\nx\n", "'x' is not a number"),
        (b"0\n-1\n", "'-1' is not a number"),
        (b"0\n1\n", "0 entries, 1 announced"),
        (b"0\n2\nt 0 1\n", "1 entries, 2 announced"),
        (b"0\n0\nt 0 1\n", "1 entries, 0 announced"),
        (b"0\n1\nt 0 1\n\n", "2 entries, 1 announced"),
        (b"0\n1\nt 0\n", "malformed entry 't 0'"),
        (b"0\n1\nt 0 1 2\n", "malformed entry"),
        (b"0\n1\nt  1\n", "malformed entry"),
        (b"0\n1\n 0 1\n", "malformed entry"),
        (b"0\n1\nt 0 -1\n", "'-1' is not a number"),
        (b"0\n1\nt 0 +1\n", "is not a number"),
        (b"0\n1\nt 0 1_0\n", "is not a number"),
        (b"0\n1\nt 0 1\r\n", "is not a number"),
        (b"0\n1\nt 0 \xd9\xa1\n", "is not a number"),
        (b"0\n1\nt 0 9223372036854775808\n", "is not a number from 0 to 9223372036854775807"),
        (b"0\n1\nt 2147483648 0\n", "is not a number from 0 to 2147483647"),
        (b"0\n2\nt 0 1\nt 0 2\n", "t-0 has two entries"),
        (b"0\n1\n\xff 0 1\n", "not text"),
        (b"\0\0\0\0", "version"),
    ],
)
def test_a_malformed_offset_checkpoint_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=complaint):
        read_offset_checkpoint(disk_with(content, PATH), PATH)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"0\n1\n0 0 0\n", "malformed entry"),
        (b"0\n2\n0 0\n0 5\n", "leader epoch 0 is out of order"),
        (b"0\n2\n1 0\n0 5\n", "leader epoch 0 is out of order"),
        (b"0\n2\n0 5\n1 4\n", "leader epoch 1 is out of order"),
        (b"0\n1\n-1 0\n", "'-1' is not a number"),
    ],
)
def test_a_malformed_leader_epoch_checkpoint_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=complaint):
        read_leader_epochs(disk_with(content, PATH), PATH)


@pytest.mark.parametrize("largest", [0, 2**63 - 1])
def test_every_offset_comes_back(largest: int) -> None:
    disk = SimulatedFiles()
    write_offset_checkpoint(disk, PATH, {T0: largest})
    assert read_offset_checkpoint(disk, PATH) == {T0: largest}


def test_no_flipped_bit_or_lost_byte_breaks_anything_but_the_entries() -> None:
    content = b"0\n3\n__consumer_offsets 0 5\n__consumer_offsets 1 17\nother-topic 7 0\n"
    damaged = [
        content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]
        for at in range(len(content))
        for bit in range(8)
    ]
    damaged += [content[:at] for at in range(len(content))]
    refused = 0
    for one in damaged:
        try:
            offsets = read_offset_checkpoint(disk_with(one, PATH), PATH)
        except (CorruptCheckpoint, NewerFormat):  # A flipped bit of the 0 can make it a 1.
            refused += 1
        else:
            assert len(offsets) in (0, 3)  # Read as another number or name, or as empty.
    assert refused > len(damaged) / 4


def test_random_bytes_are_read_or_refused_and_nothing_else() -> None:
    seed = 20
    print(f"seed {seed}")
    random = Random(seed)
    for _ in range(2000):
        content = bytes(random.choices(b"0123 \n-tx\xff\0", k=random.randrange(1, 30)))
        for read in (read_offset_checkpoint, read_leader_epochs):
            with suppress(CorruptCheckpoint):
                assert len(read(disk_with(b"0\n" + content, PATH), PATH)) <= len(content)


def test_a_power_cut_during_a_write_leaves_the_old_or_the_new_entries() -> None:
    disk = SimulatedFiles()
    write_offset_checkpoint(disk, PATH, {T0: 1})
    found: set[int] = set()
    disk.before_operation = lambda disk, _: found.update(
        read_offset_checkpoint(state, PATH)[T0]
        for state in disk.crash_states(samples=50, random=Random(1))
    )
    write_offset_checkpoint(disk, PATH, {T0: 2})
    assert found == {1, 2}
    assert read_offset_checkpoint(disk.power_cut(), PATH) == {T0: 2}


@pytest.mark.parametrize(
    "kind",
    [OperationKind.WRITE, OperationKind.SYNC, OperationKind.RENAME, OperationKind.SYNC_FOLDER],
)
def test_a_failed_write_is_reported(kind: OperationKind) -> None:
    disk = SimulatedFiles()
    disk.faults = [Fault(errno=errno.EIO, kind=kind)]
    with pytest.raises(OSError, match="Input/output"):
        write_offset_checkpoint(disk, PATH, {T0: 2})


@pytest.mark.parametrize("read", [read_offset_checkpoint, read_leader_epochs])
def test_a_checkpoint_of_any_size_is_refused_without_being_read_whole(
    read: Callable[[Files, Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"0\n0\n")
    os.truncate(path, 1 << 40)
    with pytest.raises(CorruptCheckpoint, match="larger"):
        read(OsFiles(), path)

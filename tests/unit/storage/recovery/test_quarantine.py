"""A quarantined partition's share of the journal, in a file of its own."""

from __future__ import annotations

import attrs
import pytest
from journals import A, B, point_at
from log_stores import FOLDER
from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import NewerFormat
from offsetd_storage.journal.journal_format import encode_batches, encode_points
from offsetd_storage.recovery.quarantine import (
    Claim,
    Damage,
    QuarantineDamaged,
    claims_of,
    list_quarantine_files,
    quarantine_path,
    read_quarantine_file,
    write_quarantine_file,
)
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import batch_of

CLAIM = Claim(
    point=point_at(A, 7), batches=(batch_of(7), batch_of(8, size_bytes=300)), closed_clean=False
)
EMPTY = Claim(point=point_at(B, 3), batches=(), closed_clean=True)


def written(*claims: Claim) -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    files.sync_folder(FOLDER.parent)
    for claim in claims:
        write_quarantine_file(files, FOLDER, claim)
    return files


@pytest.mark.parametrize("claim", [CLAIM, EMPTY], ids=["crashed", "closed"])
def test_a_claim_is_durable_and_reads_back(claim: Claim) -> None:
    files = written(claim).power_cut()
    assert read_quarantine_file(files, FOLDER, claim.point.topic_partition) == claim


def test_the_files_are_plain_and_found_by_name() -> None:
    files = written(EMPTY, CLAIM)
    files.put_durable(FOLDER / "offsetd-quarantine-x.tmp", b"")
    assert list_quarantine_files(files, FOLDER) == [A, B]
    assert quarantine_path(FOLDER, A).name == "offsetd-quarantine-__consumer_offsets-0"


def test_every_bit_flip_and_every_cut_is_noticed() -> None:
    files = written(CLAIM)
    content = files.read_bytes(quarantine_path(FOLDER, A))
    damaged = [content[:size] for size in range(len(content))]
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        damaged.append(bytes(flipped))
    for each in damaged:
        files.put_durable(quarantine_path(FOLDER, A), each)
        with pytest.raises(QuarantineDamaged):
            read_quarantine_file(files, FOLDER, A)


@pytest.mark.parametrize(
    "body",
    [
        encode_points([]),
        encode_points([CLAIM.point, CLAIM.point]),
        encode_points([attrs.evolve(CLAIM.point, topic_partition=B)]),
        encode_points([attrs.evolve(CLAIM.point, topic_partition=TopicPartition("../a", 0))]),
        (10**6).to_bytes(4),
    ],
    ids=["no point", "two", "another partition's", "a path", "a wrong count"],
)
def test_what_has_its_checksum_and_cannot_be_is_damage(body: bytes) -> None:
    content = bytes(1) + len(body).to_bytes(4) + body + encode_batches([])
    prefix = written(CLAIM).read_bytes(quarantine_path(FOLDER, A))[:16]
    files = SimulatedFiles()
    whole = prefix + checksum(content).to_bytes(4) + content
    files.put_durable(quarantine_path(FOLDER, A), whole)
    with pytest.raises(QuarantineDamaged, match=r"impossible|is about"):
        read_quarantine_file(files, FOLDER, A)


def test_batches_that_are_none_are_damage() -> None:
    files = written(attrs.evolve(CLAIM, batches=(b"no batch",)))
    with pytest.raises(QuarantineDamaged, match="impossible"):
        read_quarantine_file(files, FOLDER, A)


def test_a_newer_file_is_refused() -> None:
    files = written(CLAIM)
    content = files.read_bytes(quarantine_path(FOLDER, A))
    prefix = content[:8] + (3).to_bytes(4)
    newer = prefix + checksum(prefix).to_bytes(4) + content[16:]
    files.put_durable(quarantine_path(FOLDER, A), newer)
    with pytest.raises(NewerFormat):
        read_quarantine_file(files, FOLDER, A)


def test_a_file_that_is_damaged_or_missing_is_damage_of_its_partition() -> None:
    files = written(CLAIM)
    files.put_durable(quarantine_path(FOLDER, A), b"rot")
    claims = claims_of(files, FOLDER, [A, B])
    assert all(isinstance(claim, Damage) for claim in claims.values())
    assert "cannot be read" in str(claims[A])


def test_damage_names_the_place_for_an_operator() -> None:
    damage = Damage(topic_partition=A, segment_base_offset=20, position=61, reason="a bad batch")
    assert str(damage) == (
        "__consumer_offsets-0: a bad batch, at byte 61 of 00000000000000000020.log"
    )

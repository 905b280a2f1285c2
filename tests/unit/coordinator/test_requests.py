"""Commits as values, made from Python values."""

from __future__ import annotations

import pytest
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.requests import CommitOffsets, OffsetEntry, Precondition
from offsetd_storage.kernels import PADDING_BYTES


def text(commit: CommitOffsets, row: int, start: int, size: int) -> bytes:
    at = commit.columns[row, start]
    return commit.names[at : at + commit.columns[row, size]].tobytes()


def test_a_commit_keeps_every_field_of_its_entries() -> None:
    entries = [
        OffsetEntry(
            topic=b"orders",
            partition=3,
            offset=2**63 - 1,
            leader_epoch=7,
            metadata="größe".encode(),
            precondition=Precondition.EXPECTED_REVISION,
            expected=41,
            monotonic=True,
            end_offset=99,
        ),
        OffsetEntry(topic=b"", partition=0, offset=0),
    ]
    commit = CommitOffsets.of(b"billing", entries, b"request")
    kept = [
        OffsetEntry(
            topic=text(commit, row, columns.TOPIC_START, columns.TOPIC_SIZE),
            partition=numbers[columns.PARTITION],
            offset=numbers[columns.COMMIT_OFFSET],
            leader_epoch=numbers[columns.COMMIT_LEADER_EPOCH],
            metadata=text(commit, row, columns.METADATA_START, columns.METADATA_SIZE),
            precondition=Precondition(numbers[columns.PRECONDITION]),
            expected=numbers[columns.EXPECTED],
            monotonic=bool(numbers[columns.MONOTONIC]),
            end_offset=numbers[columns.END_OFFSET],
        )
        for row, numbers in enumerate(commit.columns.tolist())
    ]
    assert kept == entries
    assert (commit.group_id, commit.request_id) == (b"billing", b"request")
    names = commit.names.tobytes()
    assert names[commit.group_start :].startswith(b"billing")
    assert names[commit.request_id_start :].startswith(b"request")


@pytest.mark.parametrize(("end_offsets", "reports"), [([], False), ([-1], False), ([-1, 0], True)])
def test_a_commit_says_whether_it_reports_end_offsets(
    end_offsets: list[int], reports: bool
) -> None:
    entries = [
        OffsetEntry(topic=b"t", partition=partition, offset=0, end_offset=end_offset)
        for partition, end_offset in enumerate(end_offsets)
    ]
    assert CommitOffsets.of(b"g", entries).reports_end_offsets is reports


def test_the_names_of_a_commit_are_padded_and_writable_for_the_kernels() -> None:
    commit = CommitOffsets.of(b"g", [])
    assert commit.names.size == 1 + PADDING_BYTES
    assert commit.names.flags.writeable
    assert commit.columns.shape == (0, columns.COMMIT_COLUMNS)

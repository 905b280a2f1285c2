"""Every rule of a request's fields, at its bound and one beyond."""

from __future__ import annotations

from typing import Any

import pytest
from offsetd.v1 import group_service_pb2, offset_service_pb2, types_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.messages import validation
from offsetd_coordinator.requests import CommitOffsets, DeleteOffsets, OffsetEntry, Precondition
from offsetd_coordinator.shard.shard import Shard, ShardConfig

METADATA_UNITS_MAX = 4096
MESSAGE_BYTES_MAX = 1_048_588


def commit(group_id: str = "g", request_id: str = "", **fields: Any) -> CommitOffsets:
    """A commit of one offset with some fields of its own."""
    offset = offset_service_pb2.OffsetCommit(
        **{"topic": "t", "partition": 0, "offset": 1, **fields}
    )
    return commit_of(group_id, [offset], request_id)


def commit_of(
    group_id: str, offsets: list[offset_service_pb2.OffsetCommit], request_id: str = ""
) -> CommitOffsets:
    """A commit as it comes out of validation."""
    request = offset_service_pb2.CommitOffsetsRequest(
        group_id=group_id, offsets=offsets, request_id=request_id
    )
    return validation.commit_offsets(
        request, metadata_units_max=METADATA_UNITS_MAX, message_bytes_max=MESSAGE_BYTES_MAX
    )


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"group_id": ""}, errors.InvalidGroupId, "group_id"),
        ({"group_id": "x" * 32_768}, errors.InvalidGroupId, "group_id"),
        ({"group_id": "é" * 16_384}, errors.InvalidGroupId, "group_id"),
        ({"request_id": "x" * 65}, errors.InvalidRequestId, "request_id"),
        ({"request_id": "é" * 33}, errors.InvalidRequestId, "request_id"),
        ({"topic": ""}, errors.InvalidTopic, "offsets[0].topic"),
        ({"topic": "x" * 250}, errors.InvalidTopic, "offsets[0].topic"),
        ({"topic": "🚀" * 125}, errors.InvalidTopic, "offsets[0].topic"),
        ({"partition": -1}, errors.InvalidPartition, "offsets[0].partition"),
        ({"offset": -1}, errors.InvalidOffset, "offsets[0].offset"),
        ({"leader_epoch": -1}, errors.InvalidLeaderEpoch, "offsets[0].leader_epoch"),
        ({"end_offset": -1}, errors.InvalidOffset, "offsets[0].end_offset"),
        ({"metadata": "x" * 4097}, errors.InvalidMetadata, "offsets[0].metadata"),
        ({"metadata": "🚀" * 2049}, errors.InvalidMetadata, "offsets[0].metadata"),
        ({"expected_offset": -1}, errors.InvalidPrecondition, "offsets[0].expected_offset"),
        ({"expected_revision": -1}, errors.InvalidPrecondition, "offsets[0].expected_revision"),
        ({"must_not_exist": False}, errors.InvalidPrecondition, "offsets[0].must_not_exist"),
    ],
)
def test_a_field_beyond_its_bound_is_refused_by_name(
    fields: dict[str, Any], error: type[errors.InvalidField], field: str
) -> None:
    with pytest.raises(error) as caught:
        commit(**fields)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": "x" * 32_767},
        {"group_id": "é" * 16_383},
        {"group_id": "\x00"},
        {"request_id": "x" * 64},
        {"topic": "x" * 249},
        {"topic": "日" * 249},
        {"topic": "🚀" * 124},
        {"partition": 2**31 - 1},
        {"offset": 0},
        {"offset": 2**63 - 1},
        {"leader_epoch": 0},
        {"metadata": "x" * 4096},
        {"metadata": "🚀" * 2048},
        {"expected_offset": 0},
        {"expected_revision": 0},
        {"must_not_exist": True},
    ],
)
def test_a_field_at_its_bound_is_taken(fields: dict[str, Any]) -> None:
    assert len(commit(**fields).columns) == 1


def test_metadata_has_to_fit_kafkas_schema_whatever_the_setting_allows() -> None:
    offset = offset_service_pb2.OffsetCommit(topic="t", offset=1, metadata="日" * 10_923)
    request = offset_service_pb2.CommitOffsetsRequest(group_id="g", offsets=[offset])
    with pytest.raises(errors.InvalidMetadata, match="32769 bytes"):
        validation.commit_offsets(
            request, metadata_units_max=32_767, message_bytes_max=MESSAGE_BYTES_MAX
        )


def test_a_commit_without_offsets_is_refused() -> None:
    with pytest.raises(errors.InvalidRequest):
        commit_of("g", [])


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_no_record_of_an_offset_is_smaller_than_the_least_that_is_reckoned_with(
    version: int,
) -> None:
    shard = Shard(0, ShardConfig(offset_commit_value_version=version))
    # Each with a topic of its own: that of a commit's first record is as small as can be.
    entries = [OffsetEntry(topic=b"t", partition=number, offset=0) for number in range(10)]
    batch = shard.decide(CommitOffsets.of(b"g", entries), now_ms=0).batch
    assert batch is not None
    least = validation.BATCH_BYTES_MIN + len(entries) * validation.RECORD_BYTES_MIN
    assert least <= len(batch) <= least + 10 * 10


def test_a_commit_that_fits_no_batch_is_refused_before_its_offsets_are_looked_at() -> None:
    most = validation.offsets_fitting(MESSAGE_BYTES_MAX)
    offset = offset_service_pb2.OffsetCommit(topic="", offset=-1)
    with pytest.raises(errors.InvalidOffset):
        commit_of("g", [offset] * most)
    with pytest.raises(errors.InvalidCommitSize) as caught:
        commit_of("g", [offset] * (most + 1))
    assert caught.value.variables["bytes_max"] == str(MESSAGE_BYTES_MAX)


def test_a_partition_named_twice_is_refused() -> None:
    offsets = [
        offset_service_pb2.OffsetCommit(topic=topic, partition=partition, offset=1)
        for topic, partition in (("t", 0), ("t", 1), ("u", 0), ("t", 1))
    ]
    with pytest.raises(errors.InvalidPartition, match="t:1 is named twice") as caught:
        commit_of("g", offsets)
    assert caught.value.field == "offsets[3].partition"


@pytest.mark.parametrize(
    ("fields", "precondition", "expected"),
    [
        ({}, Precondition.NONE, 0),
        ({"expected_offset": 5}, Precondition.EXPECTED_OFFSET, 5),
        ({"expected_revision": 6}, Precondition.EXPECTED_REVISION, 6),
        ({"must_not_exist": True}, Precondition.MUST_NOT_EXIST, 0),
    ],
)
def test_a_precondition_keeps_its_meaning(
    fields: dict[str, Any], precondition: Precondition, expected: int
) -> None:
    row = commit(**fields).columns[0]
    assert row[columns.PRECONDITION] == precondition
    assert row[columns.EXPECTED] == expected


def test_a_commit_carries_what_the_message_said() -> None:
    request = commit(
        "grüppe",
        "id-1",
        topic="tõpic",
        partition=7,
        offset=2**40,
        leader_epoch=3,
        metadata="méta",
        monotonic=True,
        end_offset=2**41,
    )
    row = request.columns[0]

    def text(start: int, size: int) -> str:
        return bytes(request.names[row[start] : row[start] + row[size]]).decode()

    assert request.group_id == "grüppe".encode()
    assert request.request_id == b"id-1"
    assert text(columns.TOPIC_START, columns.TOPIC_SIZE) == "tõpic"
    assert text(columns.METADATA_START, columns.METADATA_SIZE) == "méta"
    assert row[columns.PARTITION] == 7
    assert row[columns.COMMIT_OFFSET] == 2**40
    assert row[columns.COMMIT_LEADER_EPOCH] == 3
    assert row[columns.MONOTONIC] == 1
    assert row[columns.END_OFFSET] == 2**41


def test_what_is_not_given_is_minus_one() -> None:
    row = commit().columns[0]
    assert row[columns.COMMIT_LEADER_EPOCH] == -1
    assert row[columns.END_OFFSET] == -1


@pytest.mark.parametrize(
    "message",
    [
        b"\x0a\x02\xff\xfe",  # A group id that is not UTF-8.
        b"\x0a\x03\xed\xa0\x80",  # A lone surrogate.
        b"\x0a\x05ab",  # Cut off.
        b"\xff",
        b"\x0b",
    ],
)
def test_bytes_that_are_no_message_are_refused(message: bytes) -> None:
    with pytest.raises(errors.InvalidRequest, match="CommitOffsetsRequest"):
        validation.parse(offset_service_pb2.CommitOffsetsRequest, message)


async def test_a_deletion_of_offsets_is_checked_like_a_commit() -> None:
    async def delete(**fields: Any) -> DeleteOffsets:
        request = offset_service_pb2.DeleteOffsetsRequest(**fields)
        return await validation.delete_offsets(request, Turns())

    partition = types_pb2.TopicPartition(topic="t", partition=1)
    request = await delete(group_id="g", partitions=[partition], topics=["u"], validate_only=True)
    assert request.partitions == ((b"t", 1),)
    assert request.topics == (b"u",)
    assert request.validate_only
    for fields, error in (
        ({"group_id": "", "topics": ["t"]}, errors.InvalidGroupId),
        ({"group_id": "g"}, errors.InvalidRequest),
        ({"group_id": "g", "topics": [""]}, errors.InvalidTopic),
        ({"group_id": "g", "partitions": [partition, partition]}, errors.InvalidPartition),
        ({"group_id": "g", "topics": ["t"], "reason": "x" * 1025}, errors.InvalidRequest),
        ({"group_id": "g", "topics": ["t"], "request_id": "x" * 65}, errors.InvalidRequestId),
    ):
        with pytest.raises(error):
            await delete(**fields)


def test_a_deletion_of_a_group_may_name_the_empty_group_that_a_broker_may_hold() -> None:
    request = validation.delete_group(group_service_pb2.DeleteGroupRequest(group_id=""))
    assert request.group_id == b""
    with pytest.raises(errors.InvalidGroupId):
        validation.delete_group(group_service_pb2.DeleteGroupRequest(group_id="x" * 32_768))


def test_partitions_are_checked_one_by_one() -> None:
    named = [types_pb2.TopicPartition(topic="t", partition=each) for each in (5, 6, -1)]
    checked = validation.topic_partitions(named, "groups[0].partitions")
    assert [next(checked), next(checked)] == [(b"t", 5), (b"t", 6)]
    with pytest.raises(errors.InvalidPartition) as caught:
        next(checked)
    assert caught.value.field == "groups[0].partitions[2].partition"

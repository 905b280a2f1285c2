"""offsetd_clients.messages.offset_messages"""

from typing import Any

import pytest
from offsetd.v1 import offset_service_pb2
from offsetd_clients.errors import InvalidRequest
from offsetd_clients.messages import offset_messages
from offsetd_clients.values import OffsetToCommit, TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("to_commit", "fields"),
    [
        (42, {"offset": 42}),
        (OffsetToCommit(42), {"offset": 42}),
        (OffsetToCommit(0, leader_epoch=0), {"offset": 0, "leader_epoch": 0}),
        (OffsetToCommit(1, metadata="größe 🚀"), {"offset": 1, "metadata": "größe 🚀"}),
        (OffsetToCommit(1, expected_offset=0), {"offset": 1, "expected_offset": 0}),
        (OffsetToCommit(1, expected_revision=0), {"offset": 1, "expected_revision": 0}),
        (OffsetToCommit(1, must_not_exist=True), {"offset": 1, "must_not_exist": True}),
        (OffsetToCommit(1, monotonic=True), {"offset": 1, "monotonic": True}),
        (OffsetToCommit(1, end_offset=0), {"offset": 1, "end_offset": 0}),
    ],
)
def test_an_offset_becomes_a_message_with_only_what_was_given(
    to_commit: int | OffsetToCommit, fields: dict[str, Any]
) -> None:
    request = offset_messages.commit_request("g", {ORDERS_0: to_commit}, request_id="r")
    expected = offset_service_pb2.OffsetCommit(topic="orders", partition=0, **fields)
    assert list(request.offsets) == [expected]
    assert request.offsets[0].SerializeToString() == expected.SerializeToString()
    assert (request.group_id, request.request_id) == ("g", "r")


@pytest.mark.parametrize("sequence", [0, 1, 127, 128, 2**14 - 1, 2**14, 2**32, 2**64 - 1])
@pytest.mark.parametrize("count", [1, 100, 2000])
def test_fields_of_commits_are_the_message_that_protobuf_would_make_of_them(
    sequence: int, count: int
) -> None:
    offsets = {TopicPartition("orders", each): each for each in range(count)}
    commit = offset_messages.commit_request("g", offsets, request_id="r")
    sequenced = offset_service_pb2.SequencedCommit(sequence=sequence, commit=commit)
    message = offset_service_pb2.StreamCommitsRequest(commits=[sequenced, sequenced])
    field = offset_messages.sequenced_commit(sequence, commit.SerializeToString())
    assert offset_service_pb2.StreamCommitsRequest.FromString(field * 2) == message
    if sequence:  # Which is not said where it is 0.
        assert field * 2 == message.SerializeToString()


@pytest.mark.parametrize(
    ("group_id", "topic_partition", "offset"),
    [
        ("g", TopicPartition("t", 2**31), 1),
        ("g", TopicPartition("t", 0), 2**63),
        ("g\ud800", TopicPartition("t", 0), 1),
        ("g", TopicPartition("t\ud800", 0), 1),
    ],
)
def test_what_no_message_can_hold_is_an_invalid_request(
    group_id: str, topic_partition: TopicPartition, offset: int
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        offset_messages.commit_request(group_id, {topic_partition: offset}, request_id="r")
    assert raised.value.reason == "INVALID_REQUEST"


def test_what_is_absent_from_a_stored_offset_is_none() -> None:
    response = offset_service_pb2.FetchOffsetsResponse(
        groups=[
            offset_service_pb2.GroupOffsets(
                group_id="g",
                offsets=[offset_service_pb2.CommittedOffset(topic="orders", offset=0)],
            ),
            offset_service_pb2.GroupOffsets(group_id="without"),
        ]
    )
    offsets = offset_messages.fetched_offsets(response)
    assert offsets["without"] == {}
    stored = offsets["g"][ORDERS_0]
    assert (stored.offset, stored.revision, stored.metadata) == (0, 0, "")
    assert (stored.leader_epoch, stored.end_offset, stored.expire_time) == (None, None, None)


def test_zero_is_not_absent_in_a_stored_offset() -> None:
    message = offset_service_pb2.CommittedOffset(topic="orders", leader_epoch=0, end_offset=0)
    message.commit_time.FromMilliseconds(1_795_208_775_341)
    message.expire_time.FromMilliseconds(0)
    group = offset_service_pb2.GroupOffsets(group_id="g", offsets=[message])
    response = offset_service_pb2.FetchOffsetsResponse(groups=[group])
    stored = offset_messages.fetched_offsets(response)["g"][ORDERS_0]
    assert (stored.leader_epoch, stored.end_offset) == (0, 0)
    assert stored.commit_time.isoformat() == "2026-11-20T21:06:15.341000+00:00"
    assert stored.expire_time is not None
    assert stored.expire_time.timestamp() == 0

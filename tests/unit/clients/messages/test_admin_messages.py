"""offsetd_clients.messages.admin_messages"""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message
from offsetd.v1 import admin_service_pb2 as pb
from offsetd_clients.admin_values import CleaningState, ConfigSource
from offsetd_clients.errors import InvalidRequest
from offsetd_clients.messages import admin_messages
from offsetd_clients.values import Revision

NOTE: dict[str, Any] = {"request_id": "r", "validate_only": True, "reason": "why"}
untyped: Any = admin_messages


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (
            admin_messages.describe_log_request("t", [np.int32(1), 2]),
            pb.DescribeLogRequest(topic="t", partitions=[1, 2]),
        ),
        (
            admin_messages.compact_log_request("", (), roll_active=True, **NOTE),
            pb.CompactLogRequest(
                roll_active=True, request_id="r", validate_only=True, reason="why"
            ),
        ),
        (
            admin_messages.retry_partition_request("t", 3, **NOTE),
            pb.RetryPartitionRequest(
                topic="t", partition=3, request_id="r", validate_only=True, reason="why"
            ),
        ),
        (
            admin_messages.delete_records_request("t", 0, 0, **NOTE),
            pb.DeleteRecordsRequest(
                topic="t", offset=0, request_id="r", validate_only=True, reason="why"
            ),
        ),
        (
            admin_messages.delete_records_request("t", 0, None, **NOTE),
            pb.DeleteRecordsRequest(
                topic="t", end=True, request_id="r", validate_only=True, reason="why"
            ),
        ),
        (
            admin_messages.describe_config_request("t", ["a"]),
            pb.DescribeConfigRequest(topic="t", names=["a"]),
        ),
        (
            admin_messages.update_config_request({"a": "1"}, topic="t", remove=["b"], **NOTE),
            pb.UpdateConfigRequest(
                topic="t",
                set={"a": "1"},
                remove=["b"],
                request_id="r",
                validate_only=True,
                reason="why",
            ),
        ),
    ],
)
def test_a_request_holds_what_it_is_made_of(built: Message, expected: Message) -> None:
    assert built == expected


def test_what_does_not_fit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(InvalidRequest):
        admin_messages.describe_log_request("t", [2**31])
    with pytest.raises(TypeError):
        untyped.describe_log_request("t", ["1"])
    with pytest.raises(TypeError):
        admin_messages.describe_config_request("t", "retention.ms")
    with pytest.raises(TypeError):
        untyped.update_config_request(["a"], topic="", remove=(), **NOTE)
    with pytest.raises(TypeError):
        untyped.update_config_request({"a": 1}, topic="", remove=(), **NOTE)
    with pytest.raises(InvalidRequest):
        admin_messages.describe_config_request("\ud800", ())


def a_time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_a_log_is_read_with_all_that_is_known_of_it() -> None:
    message = pb.LogPartition(
        partition=3,
        log_start_offset=1,
        log_end_offset=9,
        recovery_point=8,
        size_bytes=77,
        segments=[pb.LogSegment(base_offset=1, size_bytes=77)],
        cleaning=pb.LogCleaning(
            state=pb.CLEANING_STATE_IN_PROGRESS,
            first_dirty_offset=2,
            dirty_ratio=0.25,
            uncleanable=pb.UncleanablePartition(reason="rot", is_damaged=True, failures_in_row=2),
            last_round=pb.CleaningRound(end_offset=5, records_before=10, is_partial=True),
        ),
        blocked_retention=pb.BlockedRetention(base_offset=1, held_segments=2, held_bytes=3),
    )
    message.segments[0].largest_time.FromSeconds(5)
    message.cleaning.oldest_dirty_age.FromMilliseconds(1500)
    message.cleaning.overdue.seconds = 315_576_000_000
    message.cleaning.uncleanable.next_retry_time.FromSeconds(6)
    message.blocked_retention.blocked_until_time.FromSeconds(7)
    [partition] = admin_messages.log_partitions(pb.DescribeLogResponse(partitions=[message]))
    assert (partition.partition, partition.log_end_offset, partition.size_bytes) == (3, 9, 77)
    assert partition.segments[0].largest_time == a_time(5)
    assert partition.cleaning is not None
    assert partition.cleaning.state == CleaningState.IN_PROGRESS
    assert partition.cleaning.dirty_ratio == 0.25
    assert partition.cleaning.oldest_dirty_age == timedelta(seconds=1.5)
    assert partition.cleaning.overdue == timedelta(seconds=315_576_000_000)
    assert partition.cleaning.delete_horizon_time is None
    assert partition.cleaning.uncleanable is not None
    assert partition.cleaning.uncleanable.next_retry_time == a_time(6)
    assert partition.cleaning.last_round is not None
    assert partition.cleaning.last_round.is_partial
    assert partition.blocked_retention is not None
    assert partition.blocked_retention.blocked_until_time == a_time(7)
    [bare] = admin_messages.log_partitions(pb.DescribeLogResponse(partitions=[pb.LogPartition()]))
    assert (bare.cleaning, bare.blocked_retention, bare.segments) == (None, None, ())


def test_what_a_newer_server_says_is_unknown_and_not_an_error() -> None:
    newer: Any = 99
    [setting] = admin_messages.config_settings([pb.ConfigSetting(source=newer)])
    assert setting.source == ConfigSource.UNKNOWN
    message = pb.LogPartition(cleaning=pb.LogCleaning(state=newer))
    [partition] = admin_messages.log_partitions(pb.DescribeLogResponse(partitions=[message]))
    assert partition.cleaning is not None
    assert partition.cleaning.state == CleaningState.UNKNOWN


@pytest.mark.parametrize("source", pb.ConfigSource.values()[1:])
def test_every_source_of_the_contract_has_its_value(source: pb.ConfigSource) -> None:
    [setting] = admin_messages.config_settings([pb.ConfigSetting(source=source)])
    assert f"CONFIG_SOURCE_{setting.source.name}" == pb.ConfigSource.Name(source)


def test_a_revision_is_there_or_not() -> None:
    answer = pb.DeleteRecordsResponse(log_start_offset=5, deleted_bytes=6)
    assert admin_messages.deleted_records(answer).revision is None
    answer.revision.log_offset = 7
    assert admin_messages.deleted_records(answer).revision == Revision(0, 7)
    compacted = admin_messages.compacted_log(
        pb.CompactLogResponse(partitions=[pb.CompactedPartition(partition=1, failure="rot")])
    )
    assert (compacted.partitions[0].failure, compacted.partitions[0].round) == ("rot", None)
    assert compacted.revision is None
    assert admin_messages.retried_partition(pb.RetryPartitionResponse()).uncleanable is None
    assert admin_messages.updated_config(pb.UpdateConfigResponse()).settings == ()


def test_health_is_asked_for_and_told_as_grpc_does() -> None:
    assert admin_messages.health_request("") == b""
    assert admin_messages.health_request("offsetd.cleaner") == b"\x0a\x0foffsetd.cleaner"
    assert admin_messages.says_serving(b"\x08\x01")
    for other in (b"", b"\x08\x02", b"\x08\x03"):
        assert not admin_messages.says_serving(other)
    with pytest.raises(InvalidRequest):
        admin_messages.health_request("x" * 128)

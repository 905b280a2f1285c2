"""The client's calls of leases and retention: what is sent, and what comes back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from offsetd.v1 import group_service_pb2, offset_service_pb2, types_pb2
from offsetd_clients import InvalidRequest, Lease, OffsetClient, Revision, TopicPartition

PARTITION = TopicPartition("t", 0)
REVISION = types_pb2.Revision(log_partition=3, log_offset=7)


def lease_message() -> group_service_pb2.Lease:
    """As the server tells it."""
    message = group_service_pb2.Lease(holder="a", epoch=7, ttl=timedelta(seconds=30))
    message.grant_time.FromMilliseconds(1000)
    message.expire_time.FromMilliseconds(31_000)
    return message


LEASE = Lease(
    holder="a",
    epoch=7,
    ttl=timedelta(seconds=30),
    grant_time=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    expire_time=datetime(1970, 1, 1, 0, 0, 31, tzinfo=UTC),
)


def test_a_lease_is_acquired_with_a_request_id_that_is_made_where_none_is_given(
    fake_server: Any,
) -> None:
    answer = group_service_pb2.AcquireGroupResponse(revision=REVISION, lease=lease_message())
    fake_server.will_answer("AcquireGroup", answer, answer)
    with OffsetClient(fake_server.address) as client:
        assert client.acquire_group("g", "a", ttl=timedelta(seconds=30), force=True) == LEASE
        client.acquire_group("g", "a", request_id="mine", reason="why")
    first, second = fake_server.requests
    assert (first.group_id, first.holder, first.force) == ("g", "a", True)
    assert first.ttl.ToTimedelta() == timedelta(seconds=30)
    assert len(first.request_id) == 32
    assert (second.request_id, second.reason) == ("mine", "why")
    assert not second.HasField("ttl")


def test_a_lease_that_is_over_has_no_times(fake_server: Any) -> None:
    message = group_service_pb2.Lease(holder="a", epoch=7, ttl=timedelta(seconds=30))
    answer = group_service_pb2.AcquireGroupResponse(revision=REVISION, lease=message)
    fake_server.will_answer("AcquireGroup", answer)
    with OffsetClient(fake_server.address) as client:
        lease = client.acquire_group("g", "a")
    assert (lease.grant_time, lease.expire_time) == (None, None)


def test_a_lease_is_renewed_and_released_by_its_epoch(fake_server: Any) -> None:
    renewed = group_service_pb2.RenewGroupResponse(lease=lease_message())
    fake_server.will_answer("RenewGroup", renewed)
    fake_server.will_answer(
        "ReleaseGroup", group_service_pb2.ReleaseGroupResponse(revision=REVISION)
    )
    with OffsetClient(fake_server.address) as client:
        assert client.renew_group("g", 7) == LEASE
        assert client.release_group("g", 7) == Revision(3, 7)
    assert [request.epoch for request in fake_server.requests] == [7, 7]


def test_a_commit_and_a_deletion_carry_the_epoch_and_a_commit_its_retention(
    fake_server: Any,
) -> None:
    committed = offset_service_pb2.CommitOffsetsResponse(revision=REVISION)
    fake_server.will_answer("CommitOffsets", committed, committed)
    fake_server.will_answer("DeleteOffsets", offset_service_pb2.DeleteOffsetsResponse())
    with OffsetClient(fake_server.address) as client:
        client.commit("g", {PARTITION: 1}, epoch=0, retention=timedelta(days=1))
        client.commit("g", {PARTITION: 1})
        client.delete_offsets("g", [PARTITION], epoch=7)
    first, second, third = fake_server.requests
    assert (first.epoch, first.HasField("epoch")) == (0, True)
    assert first.retention.ToTimedelta() == timedelta(days=1)
    assert not second.HasField("epoch")
    assert not second.HasField("retention")
    assert third.epoch == 7


def test_a_retention_that_is_none_is_refused_before_anything_is_sent(fake_server: Any) -> None:
    with OffsetClient(fake_server.address) as client, pytest.raises(InvalidRequest, match="always"):
        client.update_group("g", retention="always")  # type: ignore[arg-type]
    assert fake_server.requests == []


def test_an_update_tells_whether_anything_was_changed(fake_server: Any) -> None:
    changed = group_service_pb2.UpdateGroupResponse(revision=REVISION)
    fake_server.will_answer("UpdateGroup", changed, group_service_pb2.UpdateGroupResponse())
    with OffsetClient(fake_server.address) as client:
        assert client.update_group("g", retention="never", allow_missing=True) == Revision(3, 7)
        assert client.update_group("g", retention=None, validate_only=True) is None
    first, second = fake_server.requests
    assert (first.retention.never, first.allow_missing) == (True, True)
    assert second.retention == types_pb2.Retention()
    assert second.validate_only


def test_groups_tell_their_retention_and_lease(fake_server: Any) -> None:
    group = group_service_pb2.Group(group_id="g", lease=lease_message())
    group.retention.duration.FromTimedelta(timedelta(days=90))
    fake_server.will_answer("GetGroup", group_service_pb2.GetGroupResponse(group=group))
    listings = [
        group_service_pb2.GroupListing(group_id="a", retention=types_pb2.Retention(never=True)),
        group_service_pb2.GroupListing(group_id="b"),
    ]
    fake_server.will_answer("ListGroups", group_service_pb2.ListGroupsResponse(groups=listings))
    with OffsetClient(fake_server.address) as client:
        found = client.get_group("g")
        assert [listing.retention for listing in client.list_groups()] == ["never", None]
    assert (found.retention, found.lease) == (timedelta(days=90), LEASE)

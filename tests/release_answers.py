"""What a release's folder is filled with, and what a server of any later release answers to it.

The calls and the fields are those of 0.1.0, so that each release can be asked for the same. What
came later is asked for only where the release had it: access rules, in 0.2.0.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.duration_pb2 import Duration
from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    group_service_pb2,
    history_pb2,
    offset_service_pb2,
    types_pb2,
)
from server_process import Stubs, poll

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server_process import ServerProcess

PARTITIONS = 4
SETTINGS: Mapping[str, object] = {
    "offsets.topic.num.partitions": PARTITIONS,
    "offsets.topic.segment.bytes": 1 << 20,
    "offsets.retention.check.interval.ms": 100,
    "request.id.window.ms": 0,
    "journal.file.bytes": 4 << 20,
    "disk.reserve.bytes": 0,
    "metrics.address": "",
    "logging.cleaner.file": "",
}
RULE = acl_service_pb2.Acl(
    principal="User:billing-app",
    name="billing",
    operation="ACL_OPERATION_READ",
    permission="ACL_PERMISSION_ALLOW",
    resource_type="RESOURCE_TYPE_GROUP",
)
_GROUPS_OVERWRITTEN = 4
_EXPIRED = "expired"


def commit(group: str, offsets: Mapping[int, int], **more: Any) -> Any:
    """A commit of offsets of topic `orders`, by partition."""
    metadata = more.pop("metadata", "")
    return offset_service_pb2.CommitOffsetsRequest(
        group_id=group,
        offsets=[
            offset_service_pb2.OffsetCommit(
                topic="orders", partition=partition, offset=offset, metadata=metadata
            )
            for partition, offset in offsets.items()
        ],
        **more,
    )


def has_rules(release: str) -> bool:
    """Returns whether a release knows access rules."""
    return release != "0.1.0"


def fill(stubs: Stubs, *, rules: bool = True) -> None:
    """Commits, a member, leases, settings, deletions, an expiry, and a log that is cleaned."""
    offsets, groups, admin = stubs.offsets, stubs.groups, stubs.admin
    first = offset_service_pb2.OffsetCommit(topic="orders", offset=1, leader_epoch=7, metadata="é")
    offsets.CommitOffsets(
        offset_service_pb2.CommitOffsetsRequest(
            group_id="billing", offsets=[first], request_id="billing-1"
        )
    )
    offsets.CommitOffsets(commit("billing", {0: 42, 1: 43, 2: 2**62}))
    offsets.CommitOffsets(commit("deleted", {0: 1}))
    groups.DeleteGroup(group_service_pb2.DeleteGroupRequest(group_id="deleted", reason="golden"))
    offsets.CommitOffsets(commit("thinned", {0: 1, 1: 2}))
    offsets.DeleteOffsets(
        offset_service_pb2.DeleteOffsetsRequest(
            group_id="thinned", partitions=[types_pb2.TopicPartition(topic="orders", partition=1)]
        )
    )
    offsets.CommitOffsets(commit("kept", {0: 5}))
    groups.UpdateGroup(
        group_service_pb2.UpdateGroupRequest(
            group_id="kept", retention=types_pb2.Retention(never=True)
        )
    )
    offsets.CommitOffsets(commit(_EXPIRED, {0: 6}, retention=Duration(nanos=1_000_000)))
    _acquire_leases(stubs)
    _join(stubs)
    admin.UpdateConfig(
        admin_service_pb2.UpdateConfigRequest(
            set={"offsets.retention.minutes": "20160"}, reason="golden"
        )
    )
    if rules:
        stubs.acls.AddAcls(acl_service_pb2.AddAclsRequest(acls=[RULE]))
    poll(lambda: _EXPIRED not in [each.group_id for each in _list_groups(stubs)], 60)
    for turn in range(4):
        for group in range(_GROUPS_OVERWRITTEN):
            offsets.CommitOffsets(
                commit(f"group-{group}", dict.fromkeys(range(20), turn), metadata="m" * 20)
            )
    admin.CompactLog(admin_service_pb2.CompactLogRequest(roll_active=True))
    for group in range(_GROUPS_OVERWRITTEN):
        offsets.CommitOffsets(commit(f"group-{group}", {group: 1000}))


def _acquire_leases(stubs: Stubs) -> None:
    for group, holders in {"leased": ["a", "b"], "released": ["a"]}.items():
        for holder in holders:
            lease = stubs.groups.AcquireGroup(
                group_service_pb2.AcquireGroupRequest(
                    group_id=group, holder=holder, ttl=Duration(seconds=3600), force=True
                )
            ).lease
            stubs.offsets.CommitOffsets(commit(group, {0: lease.epoch}, epoch=lease.epoch))
    stubs.groups.ReleaseGroup(
        group_service_pb2.ReleaseGroupRequest(group_id="released", epoch=lease.epoch)
    )


def _join(stubs: Stubs) -> None:
    """Leaves one static member, with a settled generation and a commit of its own."""
    joined = stubs.groups.JoinGroup(
        group_service_pb2.JoinGroupRequest(
            group_id="members",
            instance_id="i1",
            client_id="golden",
            session_timeout=Duration(seconds=1800),
            rebalance_timeout=Duration(seconds=60),
            protocol_type="consumer",
            protocols=[group_service_pb2.GroupProtocol(name="range", metadata=b"\0\0\0\0\0\0")],
        )
    )
    assignment = group_service_pb2.MemberAssignment(
        member_id=joined.member_id, assignment=b"\0\0\0\0\0\0"
    )
    stubs.groups.SyncGroup(
        group_service_pb2.SyncGroupRequest(
            group_id="members",
            member_id=joined.member_id,
            instance_id="i1",
            generation_id=joined.generation_id,
            assignments=[assignment],
        )
    )
    member = {"member_id": joined.member_id, "instance_id": "i1"}
    request = commit("members", {0: 9}, generation_id=joined.generation_id, **member)
    stubs.offsets.CommitOffsets(request)


def commit_until_killed(server: ServerProcess) -> dict[str, int]:
    """Kills the server while four callers commit. Returns the last offset acknowledged to each."""
    acknowledged: dict[str, int] = {}

    def work(group: str) -> None:
        stubs = Stubs(server.channel())
        for offset in range(1, 1_000_000):
            try:
                stubs.offsets.CommitOffsets(commit(group, {0: offset}), timeout=10)
            except grpc.RpcError:
                return
            acknowledged[group] = offset

    names = [f"writer-{number}" for number in range(4)]
    callers = [threading.Thread(target=work, args=[name]) for name in names]
    for caller in callers:
        caller.start()
    poll(lambda: sum(acknowledged.values()) >= 400 and len(acknowledged) == len(names), 60)
    server.kill()
    for caller in callers:
        caller.join()
    return acknowledged


def answers(stubs: Stubs, *, rules: bool = True) -> dict[str, Any]:
    """Everything that a server answers about a folder, as JSON knows it."""
    audit = admin_service_pb2.ListAuditEventsRequest(page_size=1000)
    config = admin_service_pb2.DescribeConfigRequest(names=["offsets.retention.minutes"])
    return {
        "groups": {each.group_id: _group(stubs, each.group_id) for each in _list_groups(stubs)},
        "audit": [
            [event.method, event.revision.log_offset, event.what]
            for event in stubs.admin.ListAuditEvents(audit).events
        ],
        "settings": [
            [setting.name, setting.value, int(setting.source), setting.problem]
            for setting in stubs.admin.DescribeConfig(config).settings
        ],
        "rules": _rules(stubs) if rules else [],
    }


def _rules(stubs: Stubs) -> list[list[Any]]:
    listed = stubs.acls.ListAcls(acl_service_pb2.ListAclsRequest()).acls
    return [[each.principal, each.name, int(each.operation)] for each in listed]


def _list_groups(stubs: Stubs) -> Any:
    request = group_service_pb2.ListGroupsRequest(page_size=1000)
    listed = stubs.groups.ListGroups(request)
    assert not listed.unreachable_log_partitions
    return sorted(listed.groups, key=lambda each: each.group_id)


def _group(stubs: Stubs, name: str) -> dict[str, Any]:
    request = group_service_pb2.GetGroupRequest(
        group_id=name, include_offsets=True, page_size=10_000
    )
    described = stubs.groups.GetGroup(request)
    group = described.group
    history = stubs.offsets.ListOffsetHistory(
        history_pb2.ListOffsetHistoryRequest(group_id=name, page_size=1000)
    )
    return {
        "log_partition": group.log_partition,
        "type": int(group.type),
        "protocol": [group.protocol_type, group.protocol, group.generation],
        "members": [[each.member_id, each.instance_id] for each in group.members],
        "retention": str(group.retention).strip(),
        "lease": [group.lease.holder, group.lease.epoch],
        "offsets": [_offset(each) for each in described.offsets],
        "history": [
            [each.topic, each.partition, each.revision.log_offset, each.WhichOneof("change")]
            for each in history.events
        ],
    }


def _offset(one: Any) -> list[Any]:
    epoch = one.leader_epoch if one.HasField("leader_epoch") else None
    time = one.commit_time.ToMilliseconds()
    return [one.topic, one.partition, one.offset, epoch, one.metadata, time, one.revision]

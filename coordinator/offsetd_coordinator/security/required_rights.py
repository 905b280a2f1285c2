"""What each method needs: one table for the checks, the tests and the guide.

A method without a row is not served. `docs/guides/security.md` shows the table to users.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from offsetd_coordinator.security.acl import Operation, ResourceType


class Right(NamedTuple):
    """An operation on the resources that the fields at `names` name.

    `names` is a path of protobuf fields, like `offsets.topic`. A path to the cluster is empty.
    """

    operation: Operation
    resource_type: ResourceType
    names: str


class MethodRights(NamedTuple):
    """What a method needs, and what its answer shows.

    A call needs all rights of `needs`, for every name that its request has. What the answer would
    show at the paths of `shows` is left out if the caller lacks the right for it. `reads_itself`:
    a kernel or the method itself reads the request, so the method checks what it has read.
    `hides_itself`: the method leaves out itself what its answer would show. `is_of_all_topics`: a
    request that names no topic is about all, so it needs the topic rights for all (`*`).
    """

    needs: tuple[Right, ...] = ()
    shows: tuple[Right, ...] = ()
    reads_itself: bool = False
    hides_itself: bool = False
    is_of_all_topics: bool = False


def _group(operation: Operation, names: str = "group_id") -> Right:
    return Right(operation, ResourceType.GROUP, names)


def _topic(operation: Operation, names: str) -> Right:
    return Right(operation, ResourceType.TOPIC, names)


def _cluster(operation: Operation) -> MethodRights:
    return MethodRights((Right(operation, ResourceType.CLUSTER, ""),))


_READ, _DESCRIBE = Operation.READ, Operation.DESCRIBE
_CHANGES: Final = (_topic(_DESCRIBE, "changes.topic"),)
_MEMBER: Final = MethodRights((_group(_READ),))

METHOD_RIGHTS: Final[dict[str, MethodRights]] = {
    "CommitOffsets": MethodRights(
        (_group(_READ), _topic(_READ, "offsets.topic")), reads_itself=True
    ),
    "StreamCommits": MethodRights(
        (_group(_READ, "commits.commit.group_id"), _topic(_READ, "commits.commit.offsets.topic")),
        reads_itself=True,
    ),
    "FetchOffsets": MethodRights(
        (_group(_DESCRIBE, "groups.group_id"),),
        (_topic(_DESCRIBE, "groups.offsets.topic"),),
        reads_itself=True,
    ),
    "DeleteOffsets": MethodRights(
        (
            _group(Operation.DELETE),
            _topic(_READ, "partitions.topic"),
            _topic(_READ, "topics"),
        ),
        (_topic(_DESCRIBE, "deleted.topic"),),
    ),
    "ResetOffsets": MethodRights(
        (
            _group(Operation.ALTER),
            _topic(_READ, "partitions.topic"),
            _topic(_READ, "topics"),
            _topic(_READ, "explicit.offsets.topic"),
        ),
        _CHANGES,
        is_of_all_topics=True,
    ),
    "FetchBounds": MethodRights(
        (_topic(_DESCRIBE, "partitions.topic"), _topic(_DESCRIBE, "topics"))
    ),
    "ListOffsetHistory": MethodRights((_group(_DESCRIBE),), (_topic(_DESCRIBE, "events.topic"),)),
    "WatchOffsets": MethodRights(
        (_group(_DESCRIBE, "group_ids"), _topic(_DESCRIBE, "topics")),
        (_group(_DESCRIBE, "events.group_id"), _topic(_DESCRIBE, "events.topic")),
        hides_itself=True,
    ),
    "ListGroups": MethodRights(
        (_topic(_DESCRIBE, "topics"),), (_group(_DESCRIBE, "groups.group_id"),)
    ),
    "GetGroup": MethodRights(
        (_group(_DESCRIBE),),
        (_topic(_DESCRIBE, "offsets.topic"), _topic(_DESCRIBE, "lags.topic")),
    ),
    "DeleteGroup": MethodRights((_group(Operation.DELETE),)),
    "CloneGroup": MethodRights(
        (
            _group(_DESCRIBE, "source_group_id"),
            _group(Operation.ALTER, "target_group_id"),
            _topic(_READ, "topics"),
            _topic(_READ, "source_offsets.offsets.topic"),
        ),
        _CHANGES,
        is_of_all_topics=True,
    ),
    # Its request has no field of topics: it needs the right for all.
    "RestoreGroup": MethodRights(
        (_group(Operation.ALTER), _topic(_READ, "")), _CHANGES, is_of_all_topics=True
    ),
    "JoinGroup": _MEMBER,
    "SyncGroup": _MEMBER,
    "Heartbeat": _MEMBER,
    "LeaveGroup": _MEMBER,
    "RemoveMembers": MethodRights((_group(Operation.ALTER),)),
    "UpdateGroup": MethodRights((_group(Operation.ALTER),)),
    "AcquireGroup": _MEMBER,
    "RenewGroup": _MEMBER,
    "ReleaseGroup": _MEMBER,
    # Clients need these two to find the server of a group. Both name no group.
    "GetServerInfo": MethodRights(
        shows=(Right(_DESCRIBE, ResourceType.CLUSTER, "counts"),), hides_itself=True
    ),
    "DescribeCluster": MethodRights(),
    "FindCoordinator": MethodRights((_group(_DESCRIBE),)),
    "DescribeLog": _cluster(_DESCRIBE),
    "CompactLog": _cluster(Operation.CLUSTER_ACTION),
    "RetryPartition": _cluster(Operation.CLUSTER_ACTION),
    "DeleteRecords": _cluster(Operation.ALTER),
    "DescribeConfig": _cluster(Operation.DESCRIBE_CONFIGS),
    "UpdateConfig": _cluster(Operation.ALTER_CONFIGS),
    "ExportOffsets": MethodRights(
        (_group(_DESCRIBE, "group_ids"), _topic(_DESCRIBE, "topics")),
        (_group(_DESCRIBE, "content"), _topic(_DESCRIBE, "content")),
        hides_itself=True,
    ),
    "ImportOffsets": MethodRights(
        (_group(Operation.ALTER, "content"), _topic(_READ, "content")), reads_itself=True
    ),
    # It sends all offsets, settings, rules and audit events.
    "StreamBackup": _cluster(Operation.CLUSTER_ACTION),
    "ListAuditEvents": MethodRights(
        (Right(_DESCRIBE, ResourceType.CLUSTER, ""),),
        (_group(_DESCRIBE, "events.what"),),
        hides_itself=True,
    ),
    "DescribeQuotas": _cluster(_DESCRIBE),
    "ListAcls": _cluster(_DESCRIBE),
    "TestAcl": _cluster(_DESCRIBE),
    "AddAcls": _cluster(Operation.ALTER),
    "RemoveAcls": _cluster(Operation.ALTER),
}

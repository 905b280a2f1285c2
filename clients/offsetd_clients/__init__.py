"""Clients of offsetd: commit and fetch the offsets of consumer groups.

with OffsetClient("127.0.0.1:7171") as client:
    client.commit("billing", {TopicPartition("orders", 0): 42})
    client.fetch("billing")
"""

from offsetd_clients.client import OffsetClient
from offsetd_clients.errors import (
    ClientClosed,
    CommitConflict,
    Conflict,
    DeadlineExceeded,
    FieldViolation,
    GroupNotEmpty,
    GroupNotFound,
    GroupRefused,
    GroupSubscribedToTopic,
    InvalidRequest,
    OffsetConflict,
    OffsetdError,
    OffsetNotMonotonic,
    OffsetsDamaged,
    OverLimit,
    ServerDefect,
    Unavailable,
    UnknownMember,
    UnstableOffsets,
)
from offsetd_clients.retry import RetryPolicy
from offsetd_clients.values import (
    CommittedOffset,
    DeletedGroup,
    DeletedOffsets,
    Group,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
    OffsetToCommit,
    Revision,
    ServerInfo,
    ServerState,
    TopicPartition,
)

__all__ = [
    "ClientClosed",
    "CommitConflict",
    "CommittedOffset",
    "Conflict",
    "DeadlineExceeded",
    "DeletedGroup",
    "DeletedOffsets",
    "FieldViolation",
    "Group",
    "GroupListing",
    "GroupMember",
    "GroupNotEmpty",
    "GroupNotFound",
    "GroupRefused",
    "GroupState",
    "GroupSubscribedToTopic",
    "GroupType",
    "InvalidRequest",
    "OffsetClient",
    "OffsetConflict",
    "OffsetNotMonotonic",
    "OffsetToCommit",
    "OffsetdError",
    "OffsetsDamaged",
    "OverLimit",
    "RetryPolicy",
    "Revision",
    "ServerDefect",
    "ServerInfo",
    "ServerState",
    "TopicPartition",
    "Unavailable",
    "UnknownMember",
    "UnstableOffsets",
]

"""Clients of offsetd: commit and fetch the offsets of consumer groups.

with OffsetClient("127.0.0.1:7171") as client:
    client.commit("billing", {TopicPartition("orders", 0): 42})
    client.fetch("billing")

`AsyncOffsetClient` is the same client for asyncio.

Each public name is imported when it is first used. So the command line, which is also in this
package, starts without loading the clients.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

# gRPC's core writes its own lines to stderr: one for each attempt to connect and, in a server
# (which the command line here can start), messages from peers with their line breaks. The error
# that a call raises already describes the failure. gRPC reads this variable when it is first
# imported; a value that is already set is kept.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offsetd_clients.admin_values import (
        BlockedRetention,
        CleaningRound,
        CleaningState,
        CompactedLog,
        CompactedPartition,
        ConfigSetting,
        ConfigSource,
        DeletedRecords,
        LogCleaning,
        LogPartition,
        LogSegment,
        RetriedPartition,
        UncleanablePartition,
        UpdatedConfig,
    )
    from offsetd_clients.aio.client import AsyncOffsetClient
    from offsetd_clients.aio.consumer import AsyncConsumer
    from offsetd_clients.aio.watch import AsyncOffsetWatch
    from offsetd_clients.calling.retry import RetryPolicy
    from offsetd_clients.calling.security import TlsOptions
    from offsetd_clients.change_values import (
        AuditEvent,
        Bounds,
        ClonedGroup,
        ImportedGroup,
        OffsetChange,
        OffsetFormat,
        ResetOffsets,
        ResetTo,
        ShiftBy,
        ToOffset,
    )
    from offsetd_clients.cluster_values import (
        Cluster,
        ClusterNode,
        ClusterPartition,
        LogPartitionState,
        Replication,
    )
    from offsetd_clients.consumer.errors import (
        ConsumerFenced,
        NotAssigned,
        PollIntervalExceeded,
        SourceBroken,
        StartUnknown,
    )
    from offsetd_clients.consumer.settings import ConsumerSettings, LeaseTerms
    from offsetd_clients.consumer.source import AsyncSource, Item, Source
    from offsetd_clients.errors import (
        ClientClosed,
        ClientDefect,
        CommitConflict,
        CommitsUnanswered,
        Conflict,
        DeadlineExceeded,
        EpochFenced,
        FencedInstance,
        FieldViolation,
        ForkedClient,
        GroupExists,
        GroupNotEmpty,
        GroupNotFound,
        GroupRefused,
        GroupSubscribedToTopic,
        HistoryCompacted,
        IllegalGeneration,
        InconsistentProtocol,
        InsecureToken,
        InvalidImport,
        InvalidRequest,
        LeaseHeld,
        LeaseRefusal,
        MemberIdRequired,
        NotCoordinator,
        OffsetBoundsUnknown,
        OffsetConflict,
        OffsetdError,
        OffsetNotCommitted,
        OffsetNotMonotonic,
        OffsetOutOfRange,
        OffsetsDamaged,
        OverLimit,
        PartitionsRefused,
        PolicyViolation,
        RebalanceInProgress,
        ServerDefect,
        TokenUnavailable,
        Unavailable,
        UnknownMember,
        UnstableOffsets,
    )
    from offsetd_clients.history_values import (
        OffsetEvent,
        OffsetEvents,
        RestoredGroup,
        RestoredOffset,
    )
    from offsetd_clients.membership_values import (
        JoinedGroup,
        JoinedMember,
        Membership,
        MemberToRemove,
        RemovedMembers,
    )
    from offsetd_clients.sync.client import OffsetClient
    from offsetd_clients.sync.consumer import Consumer
    from offsetd_clients.sync.watch import OffsetWatch
    from offsetd_clients.values import (
        CommittedOffset,
        Coordinator,
        DeletedGroup,
        DeletedOffsets,
        ExpirySuspension,
        Group,
        GroupListing,
        GroupMember,
        GroupState,
        GroupType,
        Lease,
        OffsetToCommit,
        Retention,
        Revision,
        ServerInfo,
        ServerState,
        TopicPartition,
    )

__all__ = [
    "AsyncConsumer",
    "AsyncOffsetClient",
    "AsyncOffsetWatch",
    "AsyncSource",
    "AuditEvent",
    "BlockedRetention",
    "Bounds",
    "CleaningRound",
    "CleaningState",
    "ClientClosed",
    "ClientDefect",
    "ClonedGroup",
    "Cluster",
    "ClusterNode",
    "ClusterPartition",
    "CommitConflict",
    "CommitsUnanswered",
    "CommittedOffset",
    "CompactedLog",
    "CompactedPartition",
    "ConfigSetting",
    "ConfigSource",
    "Conflict",
    "Consumer",
    "ConsumerFenced",
    "ConsumerSettings",
    "Coordinator",
    "DeadlineExceeded",
    "DeletedGroup",
    "DeletedOffsets",
    "DeletedRecords",
    "EpochFenced",
    "ExpirySuspension",
    "FencedInstance",
    "FieldViolation",
    "ForkedClient",
    "Group",
    "GroupExists",
    "GroupListing",
    "GroupMember",
    "GroupNotEmpty",
    "GroupNotFound",
    "GroupRefused",
    "GroupState",
    "GroupSubscribedToTopic",
    "GroupType",
    "HistoryCompacted",
    "IllegalGeneration",
    "ImportedGroup",
    "InconsistentProtocol",
    "InsecureToken",
    "InvalidImport",
    "InvalidRequest",
    "Item",
    "JoinedGroup",
    "JoinedMember",
    "Lease",
    "LeaseHeld",
    "LeaseRefusal",
    "LeaseTerms",
    "LogCleaning",
    "LogPartition",
    "LogPartitionState",
    "LogSegment",
    "MemberIdRequired",
    "MemberToRemove",
    "Membership",
    "NotAssigned",
    "NotCoordinator",
    "OffsetBoundsUnknown",
    "OffsetChange",
    "OffsetClient",
    "OffsetConflict",
    "OffsetEvent",
    "OffsetEvents",
    "OffsetFormat",
    "OffsetNotCommitted",
    "OffsetNotMonotonic",
    "OffsetOutOfRange",
    "OffsetToCommit",
    "OffsetWatch",
    "OffsetdError",
    "OffsetsDamaged",
    "OverLimit",
    "PartitionsRefused",
    "PolicyViolation",
    "PollIntervalExceeded",
    "RebalanceInProgress",
    "RemovedMembers",
    "Replication",
    "ResetOffsets",
    "ResetTo",
    "RestoredGroup",
    "RestoredOffset",
    "Retention",
    "RetriedPartition",
    "RetryPolicy",
    "Revision",
    "ServerDefect",
    "ServerInfo",
    "ServerState",
    "ShiftBy",
    "Source",
    "SourceBroken",
    "StartUnknown",
    "TlsOptions",
    "ToOffset",
    "TokenUnavailable",
    "TopicPartition",
    "Unavailable",
    "UncleanablePartition",
    "UnknownMember",
    "UnstableOffsets",
    "UpdatedConfig",
]

# The module of each public name. Type checkers read the imports above, which name the same modules.
_MODULE_OF = {
    "AsyncConsumer": "aio.consumer",
    "AsyncOffsetClient": "aio.client",
    "AsyncOffsetWatch": "aio.watch",
    "AsyncSource": "consumer.source",
    "AuditEvent": "change_values",
    "BlockedRetention": "admin_values",
    "Bounds": "change_values",
    "CleaningRound": "admin_values",
    "CleaningState": "admin_values",
    "ClientClosed": "errors",
    "ClientDefect": "errors",
    "ClonedGroup": "change_values",
    "Cluster": "cluster_values",
    "ClusterNode": "cluster_values",
    "ClusterPartition": "cluster_values",
    "CommitConflict": "errors",
    "CommitsUnanswered": "errors",
    "CommittedOffset": "values",
    "CompactedLog": "admin_values",
    "CompactedPartition": "admin_values",
    "ConfigSetting": "admin_values",
    "ConfigSource": "admin_values",
    "Conflict": "errors",
    "Consumer": "sync.consumer",
    "ConsumerFenced": "consumer.errors",
    "ConsumerSettings": "consumer.settings",
    "Coordinator": "values",
    "DeadlineExceeded": "errors",
    "DeletedGroup": "values",
    "DeletedOffsets": "values",
    "DeletedRecords": "admin_values",
    "EpochFenced": "errors",
    "ExpirySuspension": "values",
    "FencedInstance": "errors",
    "FieldViolation": "errors",
    "ForkedClient": "errors",
    "Group": "values",
    "GroupExists": "errors",
    "GroupListing": "values",
    "GroupMember": "values",
    "GroupNotEmpty": "errors",
    "GroupNotFound": "errors",
    "GroupRefused": "errors",
    "GroupState": "values",
    "GroupSubscribedToTopic": "errors",
    "GroupType": "values",
    "HistoryCompacted": "errors",
    "IllegalGeneration": "errors",
    "ImportedGroup": "change_values",
    "InconsistentProtocol": "errors",
    "InsecureToken": "errors",
    "InvalidImport": "errors",
    "InvalidRequest": "errors",
    "Item": "consumer.source",
    "JoinedGroup": "membership_values",
    "JoinedMember": "membership_values",
    "Lease": "values",
    "LeaseHeld": "errors",
    "LeaseRefusal": "errors",
    "LeaseTerms": "consumer.settings",
    "LogCleaning": "admin_values",
    "LogPartition": "admin_values",
    "LogPartitionState": "cluster_values",
    "LogSegment": "admin_values",
    "MemberIdRequired": "errors",
    "MemberToRemove": "membership_values",
    "Membership": "membership_values",
    "NotAssigned": "consumer.errors",
    "NotCoordinator": "errors",
    "OffsetBoundsUnknown": "errors",
    "OffsetChange": "change_values",
    "OffsetClient": "sync.client",
    "OffsetConflict": "errors",
    "OffsetEvent": "history_values",
    "OffsetEvents": "history_values",
    "OffsetFormat": "change_values",
    "OffsetNotCommitted": "errors",
    "OffsetNotMonotonic": "errors",
    "OffsetOutOfRange": "errors",
    "OffsetToCommit": "values",
    "OffsetWatch": "sync.watch",
    "OffsetdError": "errors",
    "OffsetsDamaged": "errors",
    "OverLimit": "errors",
    "PartitionsRefused": "errors",
    "PolicyViolation": "errors",
    "PollIntervalExceeded": "consumer.errors",
    "RebalanceInProgress": "errors",
    "RemovedMembers": "membership_values",
    "Replication": "cluster_values",
    "ResetOffsets": "change_values",
    "ResetTo": "change_values",
    "RestoredGroup": "history_values",
    "RestoredOffset": "history_values",
    "Retention": "values",
    "RetriedPartition": "admin_values",
    "RetryPolicy": "calling.retry",
    "Revision": "values",
    "ServerDefect": "errors",
    "ServerInfo": "values",
    "ServerState": "values",
    "ShiftBy": "change_values",
    "Source": "consumer.source",
    "SourceBroken": "consumer.errors",
    "StartUnknown": "consumer.errors",
    "TlsOptions": "calling.security",
    "ToOffset": "change_values",
    "TokenUnavailable": "errors",
    "TopicPartition": "values",
    "Unavailable": "errors",
    "UncleanablePartition": "admin_values",
    "UnknownMember": "errors",
    "UnstableOffsets": "errors",
    "UpdatedConfig": "admin_values",
}


def imported_when_asked_for(package: str, module_of: Mapping[str, str]) -> Callable[[str], object]:
    """Returns the `__getattr__` of a package, given the module that holds each public name."""

    def imported(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        vars(sys.modules[package])[name] = value  # Later accesses no longer reach __getattr__.
        return value

    return imported


if not TYPE_CHECKING:  # Type checkers would accept any name otherwise.
    __getattr__ = imported_when_asked_for(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

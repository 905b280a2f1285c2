"""Every call of the contract, made on a group of very many offsets."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs
import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo
from offsetd.v1 import (
    admin_service_pb2 as admin,
)
from offsetd.v1 import (
    group_service_pb2 as groups,
)
from offsetd.v1 import (
    history_pb2 as history,
)
from offsetd.v1 import (
    offset_service_pb2 as offsets,
)
from offsetd.v1 import (
    types_pb2,
)
from refusals import status_of
from server_process import Stubs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

KEPT: Final = "kept"
"""A large group that no call changes."""
CHANGED: Final = "changed"
"""A large group that calls change; each makes it anew before."""
JOINED: Final = "joined"
"""A large group that has members now and then."""
CALL_SECONDS_MAX: Final = 600
TOPICS: Final = 20
BATCH: Final = 5000
"""Offsets of one commit."""
_IMPORTED_BYTES: Final = 1 << 20
_IMPORTED_MAX: Final = 400_000
"""Offsets of one file; a server takes somewhat more."""
_PAGES: Final = 4
_request_ids = itertools.count()

CHANNEL_OPTIONS: Final = {"max_receive_message_length": -1}
"""Answers are as large as a group."""


class LargeGroups:
    """Large groups of a server, of `size` offsets each, and calls on them."""

    def __init__(self, channel: grpc.Channel, size: int) -> None:
        self.stubs = Stubs(channel)
        self.size = size
        self.revision = 0
        self.files: dict[int, bytes] = {}

    def fill(self) -> None:
        """Makes the groups, and files of them."""
        for first in range(0, self.size, BATCH):
            self.call("CommitOffsets", commit(range(first, min(first + BATCH, self.size))))
        self.copy(CHANGED)
        self.copy(JOINED)
        for file_format in (_JSONL, _CSV):
            lines = self.exported(file_format).splitlines(keepends=True)
            self.files[file_format] = b"".join(lines[:: 1 + len(lines) // _IMPORTED_MAX])

    def call(self, method: str, request: Any) -> Any:
        """The answer of a unary call."""
        service = METHODS[method].containing_service.name
        services = {"OffsetService": "offsets", "GroupService": "groups", "AdminService": "admin"}
        stub = getattr(self.stubs, services[service])
        return getattr(stub, method)(request, timeout=CALL_SECONDS_MAX)

    def copy(self, group_id: str) -> None:
        """Gives a group all offsets of the group that is kept."""
        self.revision = self.call("CloneGroup", clone_of(group_id)).revision.log_offset

    def empty(self) -> None:
        """The group that is changed had all offsets, and has none."""
        self.copy(CHANGED)
        self.call("DeleteOffsets", offsets.DeleteOffsetsRequest(group_id=CHANGED, topics=topics()))

    def exported(self, file_format: int) -> bytes:
        """All groups, or one where a file has but one."""
        named = [KEPT] if file_format == _CSV else []
        request = admin.ExportOffsetsRequest(format=file_format, group_ids=named)
        answers = self.stubs.admin.ExportOffsets(request, timeout=CALL_SECONDS_MAX)
        return b"".join(each.content for each in answers)

    def imported(self, file_format: int, **fields: Any) -> None:
        """Fails where a group is refused."""
        options = admin.ImportOffsetsOptions(format=file_format, **fields)
        content = self.files[file_format]
        messages = (
            admin.ImportOffsetsRequest(
                options=None if first else options, content=content[first : first + _IMPORTED_BYTES]
            )
            for first in range(0, len(content), _IMPORTED_BYTES)
        )
        answer = self.stubs.admin.ImportOffsets(messages, timeout=CALL_SECONDS_MAX)
        assert answer.groups
        assert not [each for each in answer.groups if each.HasField("error")], answer

    def watched(self) -> None:
        """All events of the large group, from the oldest one."""
        request = history.WatchOffsetsRequest(group_ids=[KEPT], from_oldest=True)
        watch = self.stubs.offsets.WatchOffsets(request, timeout=CALL_SECONDS_MAX)
        seen = 0
        for answer in watch:
            seen += len(answer.events)
            if seen >= self.size:
                break
        watch.cancel()

    def streamed(self) -> None:
        """A large commit, over a stream."""
        request = offsets.StreamCommitsRequest(
            commits=[offsets.SequencedCommit(sequence=1, commit=commit(range(BATCH)))]
        )
        [answer] = self.stubs.offsets.StreamCommits(iter([request]), timeout=CALL_SECONDS_MAX)
        assert not answer.results[0].HasField("error")

    def joined(self) -> tuple[str, int]:
        """A new member, and its generation."""
        request = groups.JoinGroupRequest(
            group_id=JOINED,
            session_timeout=Duration(seconds=300),
            rebalance_timeout=Duration(seconds=60),
            protocol_type="consumer",
            protocols=[groups.GroupProtocol(name="range", metadata=b"m")],
        )
        try:
            self.call("JoinGroup", request)
        except grpc.RpcError as refusal:
            info = ErrorInfo()
            status_of(refusal).details[0].Unpack(info)
            request.member_id = info.metadata["member_id"]
        answer = self.call("JoinGroup", request)
        return request.member_id, answer.generation_id

    def lived(self) -> None:
        """A member comes, lives and goes."""
        member, generation = self.joined()
        identity = {"group_id": JOINED, "member_id": member, "generation_id": generation}
        assignment = groups.MemberAssignment(member_id=member, assignment=b"a")
        self.call("SyncGroup", groups.SyncGroupRequest(**identity, assignments=[assignment]))
        self.call("Heartbeat", groups.HeartbeatRequest(**identity))
        leaving = [groups.LeavingMember(member_id=member)]
        self.call("LeaveGroup", groups.LeaveGroupRequest(group_id=JOINED, members=leaving))

    def leased(self) -> None:
        """A lease of the group is taken, extended and given back."""
        acquire = groups.AcquireGroupRequest(group_id=JOINED, holder="h", ttl=Duration(seconds=300))
        epoch = self.call("AcquireGroup", acquire).lease.epoch
        self.call("RenewGroup", groups.RenewGroupRequest(group_id=JOINED, epoch=epoch))
        self.call("ReleaseGroup", groups.ReleaseGroupRequest(group_id=JOINED, epoch=epoch))

    def removed(self) -> None:
        """A member is removed, and the request comes again."""
        self.joined()
        twice(
            "RemoveMembers",
            lambda _, request_id: groups.RemoveMembersRequest(
                group_id=JOINED, all=True, request_id=request_id
            ),
        )(self)


METHODS: Final = {
    method.name: method
    for file in (admin, groups, offsets)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""All calls of the contract."""
_JSONL, _CSV = admin.OFFSET_FORMAT_JSONL, admin.OFFSET_FORMAT_KAFKA_CSV


@attrs.frozen
class LargeCall:
    """Calls on a large group. `prepare` makes the group again that they change.

    `code` is how the last of them ends.
    """

    methods: tuple[str, ...]
    make: Callable[[LargeGroups], object]
    prepare: Callable[[LargeGroups], object] = lambda _: None
    code: grpc.StatusCode = grpc.StatusCode.OK

    def run(self, large: LargeGroups) -> None:
        """Makes the call. Fails unless it ends as it should."""
        code = grpc.StatusCode.OK
        try:
            self.make(large)
        except grpc.RpcError as refusal:
            code = refusal.code()
            if code is not self.code:
                raise
        assert code is self.code


def topics() -> list[str]:
    """Of all large groups."""
    return [f"topic-{place}" for place in range(TOPICS)]


def places(numbers: range) -> Iterator[dict[str, Any]]:
    """Partitions of a large group, by their places."""
    for place in numbers:
        yield {"topic": f"topic-{place % TOPICS}", "partition": place // TOPICS}


def commit(numbers: range) -> offsets.CommitOffsetsRequest:
    """Of the group that is kept; its offsets are always the same."""
    return offsets.CommitOffsetsRequest(
        group_id=KEPT,
        offsets=[
            offsets.OffsetCommit(**each, offset=1000, metadata="some metadata")
            for each in places(numbers)
        ],
    )


def clone_of(group_id: str, **fields: Any) -> groups.CloneGroupRequest:
    """To a group that may be there."""
    return groups.CloneGroupRequest(
        source_group_id=KEPT, target_group_id=group_id, overwrite=True, **fields
    )


def once(method: str, request: Any) -> Callable[[LargeGroups], object]:
    """The same unary call each time."""
    return lambda large: large.call(method, request)


def twice(
    method: str, request_of: Callable[[LargeGroups, str], Any]
) -> Callable[[LargeGroups], object]:
    """A unary call that comes again with the same request id."""

    def make(large: LargeGroups) -> None:
        request = request_of(large, f"request-{next(_request_ids)}")
        first = large.call(method, request)
        again = large.call(method, request)
        assert first.revision == again.revision

    return make


def paged(method: str, request: Any) -> Callable[[LargeGroups], object]:
    """The first pages, each from where the last one ended."""

    def make(large: LargeGroups) -> None:
        asked = type(request)()
        asked.CopyFrom(request)
        for _ in range(_PAGES):
            asked.page_token = large.call(method, asked).next_page_token
            assert asked.page_token

    return make


def _read_calls() -> Mapping[str, LargeCall]:
    selected = [types_pb2.TopicPartition(**each) for each in places(range(20_000))]
    some = selected[:10]
    fetch, selection = offsets.FetchOffsetsRequest, offsets.GroupSelection
    get, listed = groups.GetGroupRequest, history.ListOffsetHistoryRequest
    unary: dict[str, tuple[str, Any]] = {
        "fetch all": ("FetchOffsets", fetch(groups=[selection(group_id=KEPT)])),
        "fetch of partitions that are named": (
            "FetchOffsets",
            fetch(groups=[selection(group_id=KEPT, partitions=selected)]),
        ),
        "a group": ("GetGroup", get(group_id=KEPT)),
        "all groups": ("ListGroups", groups.ListGroupsRequest()),
        "history of some partitions": (
            "ListOffsetHistory",
            listed(group_id=KEPT, partitions=some, page_size=10),
        ),
        "the server": ("GetServerInfo", admin.GetServerInfoRequest()),
        "the cluster": ("DescribeCluster", admin.DescribeClusterRequest()),
        "the coordinator": ("FindCoordinator", admin.FindCoordinatorRequest(group_id=KEPT)),
        "the log": ("DescribeLog", admin.DescribeLogRequest()),
        "settings": ("DescribeConfig", admin.DescribeConfigRequest()),
        "quotas": ("DescribeQuotas", admin.DescribeQuotasRequest()),
        "the audit log": ("ListAuditEvents", admin.ListAuditEventsRequest()),
    }
    pages: dict[str, tuple[str, Any]] = {
        "pages of one offset": ("GetGroup", get(group_id=KEPT, include_offsets=True, page_size=1)),
        "pages of offsets": ("GetGroup", get(group_id=KEPT, include_offsets=True, page_size=1000)),
        "pages of lags": ("GetGroup", get(group_id=KEPT, include_lags=True, page_size=10_000)),
        "pages of history": ("ListOffsetHistory", listed(group_id=KEPT, page_size=1000)),
        "pages of history, oldest first": (
            "ListOffsetHistory",
            listed(group_id=KEPT, page_size=1000, oldest_first=True),
        ),
    }
    return {
        **{
            name: LargeCall((method,), once(method, asked))
            for name, (method, asked) in unary.items()
        },
        **{
            name: LargeCall((method,), paged(method, asked))
            for name, (method, asked) in pages.items()
        },
        "bounds": LargeCall(
            ("FetchBounds",),
            once("FetchBounds", offsets.FetchBoundsRequest(partitions=selected)),
        ),
        "watch from the oldest": LargeCall(("WatchOffsets",), LargeGroups.watched),
        "export of all groups": LargeCall(("ExportOffsets",), lambda large: large.exported(_JSONL)),
        "export of one group": LargeCall(("ExportOffsets",), lambda large: large.exported(_CSV)),
    }


def _copied(large: LargeGroups) -> None:
    large.copy(CHANGED)


def _offset_changes() -> Mapping[str, LargeCall]:
    some = [types_pb2.TopicPartition(**each) for each in places(range(10_000))]
    delete, reset = offsets.DeleteOffsetsRequest, offsets.ResetOffsetsRequest
    return {
        "commit": LargeCall(("CommitOffsets",), once("CommitOffsets", commit(range(BATCH)))),
        "commit over a stream": LargeCall(("StreamCommits",), LargeGroups.streamed),
        "offsets deleted": LargeCall(
            ("DeleteOffsets",),
            twice(
                "DeleteOffsets",
                lambda _, key: delete(group_id=CHANGED, topics=topics(), request_id=key),
            ),
            _copied,
        ),
        "offsets deleted, dry run": LargeCall(
            ("DeleteOffsets",),
            once("DeleteOffsets", delete(group_id=KEPT, topics=topics(), validate_only=True)),
        ),
        "reset of many partitions": LargeCall(
            ("ResetOffsets",),
            twice(
                "ResetOffsets",
                lambda _, key: reset(
                    group_id=CHANGED, partitions=some, offset=7, force=True, request_id=key
                ),
            ),
            _copied,
        ),
        "reset of too many": LargeCall(
            ("ResetOffsets",),
            once("ResetOffsets", reset(group_id=KEPT, offset=7, force=True)),
            code=grpc.StatusCode.INVALID_ARGUMENT,
        ),
        "reset to a time": LargeCall(
            ("ResetOffsets",),
            lambda large: large.call("ResetOffsets", _to_now(some)),
            _copied,
        ),
    }


def _to_now(partitions: list[Any]) -> offsets.ResetOffsetsRequest:
    request = offsets.ResetOffsetsRequest(group_id=CHANGED, partitions=partitions, force=True)
    request.time.GetCurrentTime()
    return request


def _group_changes() -> Mapping[str, LargeCall]:
    restore = history.RestoreGroupRequest
    return {
        "group deleted": LargeCall(
            ("DeleteGroup",),
            twice(
                "DeleteGroup",
                lambda _, key: groups.DeleteGroupRequest(group_id=CHANGED, request_id=key),
            ),
            _copied,
        ),
        "group cloned": LargeCall(
            ("CloneGroup",),
            twice("CloneGroup", lambda _, key: clone_of(CHANGED, request_id=key)),
            LargeGroups.empty,
        ),
        "group cloned over another": LargeCall(
            ("CloneGroup",),
            twice("CloneGroup", lambda _, key: clone_of(CHANGED, request_id=key)),
            _copied,
        ),
        "group restored": LargeCall(
            ("RestoreGroup",),
            twice(
                "RestoreGroup",
                lambda large, key: restore(
                    group_id=CHANGED, revision=large.revision, request_id=key
                ),
            ),
            LargeGroups.empty,
        ),
        "group restored, dry run": LargeCall(
            ("RestoreGroup",),
            lambda large: large.call(
                "RestoreGroup",
                restore(group_id=CHANGED, revision=large.revision, validate_only=True),
            ),
            LargeGroups.empty,
        ),
        "retention": LargeCall(
            ("UpdateGroup",),
            once(
                "UpdateGroup",
                groups.UpdateGroupRequest(group_id=KEPT, retention=types_pb2.Retention(never=True)),
            ),
        ),
        "a member's life": LargeCall(
            ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"), LargeGroups.lived
        ),
        "members removed": LargeCall(("RemoveMembers",), LargeGroups.removed),
        "a lease": LargeCall(("AcquireGroup", "RenewGroup", "ReleaseGroup"), LargeGroups.leased),
    }


def _administration() -> Mapping[str, LargeCall]:
    def imported(file_format: int, **fields: Any) -> Callable[[LargeGroups], object]:
        def make(large: LargeGroups) -> None:
            key = f"request-{next(_request_ids)}"
            for _ in range(2):
                large.imported(file_format, request_id=key, **fields)

        return make

    return {
        "import of all groups": LargeCall(("ImportOffsets",), imported(_JSONL), LargeGroups.empty),
        "import of one group": LargeCall(
            ("ImportOffsets",), imported(_CSV, group_id=CHANGED), LargeGroups.empty
        ),
        "import, dry run": LargeCall(
            ("ImportOffsets",), lambda large: large.imported(_JSONL, validate_only=True)
        ),
        "a setting": LargeCall(
            ("UpdateConfig",),
            once("UpdateConfig", admin.UpdateConfigRequest(set={"watch.watchers.max": "100"})),
        ),
        "a partition tried again": LargeCall(
            ("RetryPartition",), once("RetryPartition", admin.RetryPartitionRequest(partition=0))
        ),
        "records deleted": LargeCall(
            ("DeleteRecords",),
            once("DeleteRecords", admin.DeleteRecordsRequest(topic="__offsetd_audit", end=True)),
        ),
        "the log compacted": LargeCall(
            ("CompactLog",), once("CompactLog", admin.CompactLogRequest(roll_active=True))
        ),
    }


READS: Final = _read_calls()
CHANGES: Final = {**_offset_changes(), **_group_changes()}
LARGE_CALLS: Final = {**READS, **CHANGES, **_administration()}
"""By name. Those that compact come last, as they take history away."""

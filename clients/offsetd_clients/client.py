"""The sync client."""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, SupportsIndex, TypeVar
from uuid import uuid4

import attrs
import grpc
from offsetd.v1.admin_service_pb2 import GetServerInfoRequest
from offsetd.v1.admin_service_pb2_grpc import AdminServiceStub
from offsetd.v1.group_service_pb2_grpc import GroupServiceStub
from offsetd.v1.offset_service_pb2_grpc import OffsetServiceStub

from offsetd_clients import admin_messages, messages
from offsetd_clients.admin_values import (
    CompactedLog,
    ConfigSetting,
    DeletedRecords,
    LogPartition,
    RetriedPartition,
    UpdatedConfig,
)
from offsetd_clients.changes import ChangeCalls
from offsetd_clients.errors import ClientClosed, Failure, OffsetdError, error_of
from offsetd_clients.history import HistoryCalls
from offsetd_clients.leases import LeaseCalls
from offsetd_clients.membership import Membership, MembershipCalls, note_member
from offsetd_clients.retry import RetryPolicy
from offsetd_clients.values import (
    CommittedOffset,
    DeletedGroup,
    DeletedOffsets,
    Group,
    GroupListing,
    GroupState,
    GroupType,
    OffsetToCommit,
    Revision,
    ServerInfo,
    TopicPartition,
)

ADDRESS_VARIABLE = "OFFSETD_ADDRESS"
ADDRESS_DEFAULT = "127.0.0.1:7171"

CHANNEL_OPTIONS = (
    # Retries are ours: they carry one deadline and heed the server's RetryInfo.
    ("grpc.enable_retries", 0),
    # A group's offsets may be many; the server bounds what it takes, not what it answers.
    ("grpc.max_receive_message_length", -1),
    # A server that was restarted is found again in about a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # So long may it take to connect, whatever gRPC's name for it says: a lost SYN costs a second.
    ("grpc.min_reconnect_backoff_ms", 3000),
    # A connection whose other end is gone without a word is given up after 20 seconds, with calls
    # or without, so that half of a call's deadline is left. The server permits a ping in 10.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5000),
    # Newer gRPC waits for a ping's answer so long, and a minute unless told.
    ("grpc.http2.ping_timeout_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)

Request = TypeVar("Request")
Response = TypeVar("Response")


class OffsetClient(MembershipCalls, LeaseCalls, ChangeCalls, HistoryCalls):
    """Commits, fetches and deletes the offsets of consumer groups; every OK is on the disk.

    Safe to share between threads, not across a fork. Each call makes as many tries as fit into
    the retry policy's deadline while the server is unavailable; a write carries a request id, so
    that a try whose answer was lost is not applied twice. Every call may raise `OffsetdError`, and
    TypeError for an argument that is none of its kind. Whole numbers may be numpy's.
    """

    def __init__(self, address: str | None = None, *, retry: RetryPolicy | None = None) -> None:
        """Connects when first used. `address`: `host:port`, or what `OFFSETD_ADDRESS` says."""
        self.address = address or os.environ.get(ADDRESS_VARIABLE) or ADDRESS_DEFAULT
        self._retry = retry or RetryPolicy()
        self._channel = grpc.insecure_channel(self.address, options=CHANNEL_OPTIONS)
        self._closed = False
        self._offsets = OffsetServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._groups = GroupServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._admin = AdminServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._health: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            "/grpc.health.v1.Health/Check"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; calls in flight, and all later ones, raise `ClientClosed`."""
        self._closed = True
        self._channel.close()

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, SupportsIndex | OffsetToCommit],
        *,
        membership: Membership | None = None,
        epoch: SupportsIndex | None = None,
        retention: timedelta | None = None,
        request_id: str | None = None,
    ) -> Revision:
        """Commits all of `offsets` or, on any error, none. Returns the last record's position.

        `membership`: as a member of the group, which is then alive. `epoch`: as the holder of its
        lease; raises `EpochFenced` if another has it by now. `retention`: how long these offsets
        are kept, where the group's retention is not to count. `request_id` names the commit for
        retries of your own; without it one is made.
        """
        request = messages.commit_request(
            group_id,
            offsets,
            request_id=request_id or _new_id(),
            epoch=epoch,
            retention=retention,
        )
        note_member(request, membership)
        return messages.revision_of(self._call(self._offsets.CommitOffsets, request).revision)

    def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """The stored offsets of a group, or those of `partitions`; what is not stored is absent.

        `require_stable`: wait, and then raise `UnstableOffsets`, while a transaction has offsets
        pending for what is asked.
        """
        chosen = () if partitions is None else messages.several("partitions", partitions)
        if partitions is not None and not chosen:
            return {}
        request = messages.fetch_request({group_id: chosen}, require_stable=require_stable)
        response = self._call(self._offsets.FetchOffsets, request)
        return messages.fetched_offsets(response)[group_id]

    def fetch_many(
        self, group_ids: Iterable[str], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """The stored offsets of many groups in one call; a group without any has an empty dict."""
        selections = dict.fromkeys(messages.several("group_ids", group_ids), ())
        if not selections:
            return {}
        request = messages.fetch_request(selections, require_stable=require_stable)
        return messages.fetched_offsets(self._call(self._offsets.FetchOffsets, request))

    def delete_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] = (),
        *,
        topics: Iterable[str] = (),
        epoch: SupportsIndex | None = None,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> DeletedOffsets:
        """Deletes offsets, by partition and by whole topic: all, or on any error none.

        `epoch`: as the holder of the group's lease.
        """
        request = messages.delete_offsets_request(
            group_id,
            partitions=partitions,
            topics=topics,
            epoch=epoch,
            request_id=request_id or _new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return messages.deleted_offsets(self._call(self._offsets.DeleteOffsets, request))

    def delete_group(
        self,
        group_id: str,
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> DeletedGroup:
        """Deletes an empty group with its offsets; raises `GroupNotFound`, `GroupNotEmpty`."""
        request = messages.delete_group_request(
            group_id,
            request_id=request_id or _new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return messages.deleted_group(self._call(self._groups.DeleteGroup, request))

    def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        group_id_prefix: str = "",
        page_size: int = 0,
    ) -> Iterator[GroupListing]:
        """Yields groups in the log's order, page after page; no states, no types: any.

        Not a snapshot: groups that come and go meanwhile may be in it or not.
        """
        states, types = messages.several("states", states), messages.several("types", types)
        page_token = ""
        while True:
            request = messages.list_groups_request(
                states=states,
                types=types,
                group_id_prefix=group_id_prefix,
                page_size=page_size,
                page_token=page_token,
            )
            response = self._call(self._groups.ListGroups, request)
            yield from messages.listed_groups(response)
            page_token = response.next_page_token
            if not page_token:
                return

    def get_group(self, group_id: str) -> Group:
        """One group in full; raises `GroupNotFound`."""
        request = messages.get_group_request(group_id)
        return messages.group_of(self._call(self._groups.GetGroup, request).group)

    def get_server_info(self) -> ServerInfo:
        """The server; answered while it loads, too."""
        return messages.server_info(self._call(self._admin.GetServerInfo, GetServerInfoRequest()))

    def is_serving(self, service: str = "") -> bool:
        """What the server says of its health, or of a service's; `offsetd.cleaner` is one."""
        request = admin_messages.health_request(service)
        return admin_messages.says_serving(self._call(self._health, request))

    def describe_log(
        self, topic: str = "", partitions: Iterable[SupportsIndex] = ()
    ) -> tuple[LogPartition, ...]:
        """Partitions of a topic's log; of the offsets' and all of them unless told otherwise."""
        request = admin_messages.describe_log_request(topic, partitions)
        return admin_messages.log_partitions(self._call(self._admin.DescribeLog, request))

    def compact_log(
        self,
        topic: str = "",
        partitions: Iterable[SupportsIndex] = (),
        *,
        roll_active: bool = False,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> CompactedLog:
        """Compacts partitions once, and waits for that; `validate_only`: what that would save.

        After `DeadlineExceeded` the rounds go on. Raises `PolicyViolation` where the topic is not
        compacted.
        """
        request = admin_messages.compact_log_request(
            topic,
            partitions,
            roll_active=roll_active,
            request_id=request_id or _new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return admin_messages.compacted_log(self._call(self._admin.CompactLog, request))

    def retry_partition(
        self,
        partition: SupportsIndex,
        topic: str = "",
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> RetriedPartition:
        """Lets a partition that could not be cleaned be tried again at once."""
        request = admin_messages.retry_partition_request(
            topic,
            partition,
            request_id=request_id or _new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return admin_messages.retried_partition(self._call(self._admin.RetryPartition, request))

    def delete_records(
        self,
        topic: str,
        partition: SupportsIndex,
        offset: SupportsIndex | None,
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> DeletedRecords:
        """Deletes what lies below `offset`, or (None) all there is now.

        Raises `PolicyViolation` where the topic's policy does not delete, `OffsetOutOfRange` above
        the log's end.
        """
        request = admin_messages.delete_records_request(
            topic,
            partition,
            offset,
            request_id=request_id or _new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return admin_messages.deleted_records(self._call(self._admin.DeleteRecords, request))

    def describe_config(
        self, topic: str = "", names: Iterable[str] = ()
    ) -> tuple[ConfigSetting, ...]:
        """Settings by name, of a topic or else of the server; no names: all of them."""
        request = admin_messages.describe_config_request(topic, names)
        response = self._call(self._admin.DescribeConfig, request)
        return admin_messages.config_settings(response.settings)

    def update_config(
        self,
        changes: Mapping[str, str],
        *,
        remove: Iterable[str] = (),
        topic: str = "",
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> UpdatedConfig:
        """Sets some settings of a topic or else of the server, and takes others back: all or none.

        They count at once, and after a restart.
        """
        request = admin_messages.update_config_request(
            changes,
            topic=topic,
            remove=remove,
            request_id=request_id or _new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return admin_messages.updated_config(self._call(self._admin.UpdateConfig, request))

    def _call(
        self,
        method: "grpc.UnaryUnaryMultiCallable[Request, Response]",
        request: Request,
        *,
        wait_s: float | None = None,
    ) -> Response:
        """`wait_s`: for an answer that others may keep waiting so long."""

        def attempt(timeout_s: float) -> Response:
            if self._closed:
                raise _closed_before()
            try:
                return method(request, timeout=timeout_s)
            except grpc.RpcError as error:
                raise self._error_of(error) from error
            except ValueError:  # How gRPC says that the channel was closed a moment ago.
                if self._closed:
                    raise _closed_before() from None
                raise

        retry = self._retry
        if wait_s is not None:
            retry = attrs.evolve(retry, timeout_s=wait_s, try_timeout_s=wait_s)
        return retry.call(attempt)

    def _error_of(self, error: grpc.RpcError) -> OffsetdError:
        failure = _failure(error)
        if self._closed and failure.code == "CANCELLED":
            message = "the client was closed while an answer was awaited"
            return ClientClosed(Failure(code=failure.code, message=message))
        return error_of(failure)


def _closed_before() -> ClientClosed:
    return ClientClosed(Failure(code="FAILED_PRECONDITION", message="the client is closed"))


def _failure(error: Any) -> Failure:
    details = dict(error.trailing_metadata() or ()).get(messages.STATUS_DETAILS_KEY)
    return messages.failure_of(error.code().name, error.details() or "", details)


def _new_id() -> str:
    return uuid4().hex

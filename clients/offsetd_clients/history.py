"""What happened to offsets: listed, watched as it happens, undone."""

import operator
import random
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, SupportsIndex
from uuid import uuid4

import attrs
import grpc
from offsetd.v1 import history_pb2
from offsetd.v1.group_service_pb2_grpc import GroupServiceStub
from offsetd.v1.offset_service_pb2_grpc import OffsetServiceStub

from offsetd_clients.errors import OffsetdError
from offsetd_clients.messages import building, partition_messages, revision_of, several
from offsetd_clients.retry import RetryPolicy
from offsetd_clients.values import Revision, TopicPartition

_WAIT_S_MIN = 0.1
_WAIT_S_MAX = 2.0


@attrs.frozen(kw_only=True)
class OffsetEvent:
    """A commit or a deletion of one offset; `offset` None: it was deleted, or expired.

    Where `is_readable` is False, something was written that cannot be read.
    """

    group_id: str
    topic_partition: TopicPartition
    revision: Revision
    time: datetime
    offset: int | None
    leader_epoch: int | None = None
    metadata: str = ""
    commit_time: datetime | None = None
    expire_time: datetime | None = None
    is_readable: bool = True


@attrs.frozen(kw_only=True)
class OffsetEvents:
    """Some events, and the token behind them, of a watcher that has taken them all."""

    events: tuple[OffsetEvent, ...]
    token: str


@attrs.frozen(kw_only=True)
class RestoredOffset:
    """An offset before and after a restore; None: none.

    `revision` is that of the record that says so; None: nothing was written, or by an earlier try
    of the same call.
    """

    topic_partition: TopicPartition
    offset_before: int | None
    offset_after: int | None
    revision: Revision | None = None


@attrs.frozen(kw_only=True)
class RestoredGroup:
    """What changed, or would have; `revision` is None if nothing was written.

    The offsets are what they were before `restored_before` was written.
    """

    revision: Revision | None
    changes: tuple[RestoredOffset, ...]
    restored_before: Revision


class OffsetWatch:
    """Events as they become durable, one by one, or `batches` of them with their tokens.

    It connects again by itself, and goes on where it was: no event is lost, none comes twice.
    After as long without an answer as calls may take, it raises. For one thread; `cancel` is for
    any.
    """

    def __init__(
        self, client: "HistoryCalls", request: history_pb2.WatchOffsetsRequest, timeout_s: float
    ) -> None:
        """For `OffsetClient.watch_offsets`."""
        self.unreachable_log_partitions: tuple[int, ...] = ()
        self._client = client
        self._request = request
        self._timeout_s = timeout_s
        self._call: Any = None
        self._cancelled = False

    @property
    def token(self) -> str:
        """Where a watcher goes on behind the last batch; empty before the first answer."""
        return self._request.token

    def __iter__(self) -> Iterator[OffsetEvent]:
        for batch in self.batches():
            yield from batch.events

    def batches(self) -> Iterator[OffsetEvents]:
        """Yields what comes at one time; nothing but a token, too, where only that comes."""
        failed_since_s: float | None = None
        tries = 0
        while not self._cancelled:
            try:
                for batch in self._batches():
                    failed_since_s, tries = None, 0
                    yield batch
            except OffsetdError as error:
                if self._cancelled:
                    return
                failed_since_s = failed_since_s or time.monotonic()
                if not error.retriable or time.monotonic() - failed_since_s > self._timeout_s:
                    raise
                asked_s = error.failure.retry_after_s or 0.0
                spread_s = random.uniform(0, min(_WAIT_S_MIN * 2**tries, _WAIT_S_MAX))
                time.sleep(asked_s + _WAIT_S_MIN + spread_s)
                tries += 1

    def cancel(self) -> None:
        """Ends it: who iterates gets no more."""
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()

    def _open(self, request: history_pb2.WatchOffsetsRequest) -> Any:
        return self._client._offsets.WatchOffsets(request)

    def _batches(self) -> Iterator[OffsetEvents]:
        try:
            self._call = self._open(self._request)
            for response in self._call:
                events = tuple(map(_event, response.events))
                self.unreachable_log_partitions += tuple(response.unreachable_log_partitions)
                yield OffsetEvents(events=events, token=response.token)
                # Now: it is behind what was taken.
                self._request.token = response.token
                self._request.from_oldest = False
        except grpc.RpcError as error:
            raise self._client._error_of(error) from error
        finally:
            if self._call is not None:
                self._call.cancel()


class HistoryCalls:
    """The part of a client that looks at the past."""

    _offsets: OffsetServiceStub
    _groups: GroupServiceStub
    _retry: RetryPolicy

    def list_offset_history(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] = (),
        *,
        since: datetime | SupportsIndex | None = None,
        until: datetime | SupportsIndex | None = None,
        oldest_first: bool = False,
        page_size: int = 0,
    ) -> Iterator[OffsetEvent]:
        """Yields commits and deletions of a group's offsets, page after page, newest first.

        `since` and `until` are times, or log offsets of the group's log partition. Without `since`
        it goes back as far as all events are there. Raises `HistoryCompacted`.
        """
        with building("history"):
            request = history_pb2.ListOffsetHistoryRequest(
                group_id=group_id,
                partitions=partition_messages(several("partitions", partitions)),
                oldest_first=oldest_first,
                page_size=page_size,
            )
            _set_bound(request, "from", since)
            _set_bound(request, "to", until)
        while True:
            response = self._call(self._offsets.ListOffsetHistory, request)
            yield from map(_event, response.events)
            request.page_token = response.next_page_token
            if not request.page_token:
                return

    def restore_group(
        self,
        group_id: str,
        target: datetime | SupportsIndex,
        *,
        force: bool = False,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> RestoredGroup:
        """Makes a group's offsets what they were at a time, or right behind a log offset.

        `force`: also while the group has members, or its lease is held. Raises `HistoryCompacted`,
        `GroupNotEmpty`, `LeaseHeld`.
        """
        with building("restore"):
            request = history_pb2.RestoreGroupRequest(
                group_id=group_id,
                force=force,
                validate_only=validate_only,
                reason=reason,
                request_id=request_id or uuid4().hex,
            )
            if isinstance(target, datetime):
                request.time.FromDatetime(target)
            else:
                request.revision = operator.index(target)
        response = self._call(self._groups.RestoreGroup, request)
        return RestoredGroup(
            revision=revision_of(response.revision) if response.HasField("revision") else None,
            changes=tuple(map(_restored, response.changes)),
            restored_before=revision_of(response.restored_before),
        )

    def watch_offsets(
        self,
        group_ids: Iterable[str] = (),
        *,
        group_id_prefix: str = "",
        topics: Iterable[str] = (),
        token: str = "",
        from_oldest: bool = False,
        progress_interval_s: float | None = None,
    ) -> OffsetWatch:
        """Events of some groups, or of all, as they become durable; connects when it is iterated.

        From `token` on, which another watcher with the same groups, prefix and topics had; else
        from the oldest events that are all there, or from now on. Iterating raises
        `HistoryCompacted`, with the oldest token, where events are gone.
        """
        groups, named = several("group_ids", group_ids), several("topics", topics)
        with building("watch"):
            request = history_pb2.WatchOffsetsRequest(
                group_ids=groups,
                group_id_prefix=group_id_prefix,
                topics=named,
                token=token,
                from_oldest=from_oldest,
            )
            if progress_interval_s is not None:
                request.progress_interval.FromMilliseconds(round(progress_interval_s * 1000))
        return OffsetWatch(self, request, self._retry.timeout_s)

    def _call(self, method: Any, request: Any) -> Any:
        raise NotImplementedError

    def _error_of(self, error: grpc.RpcError) -> OffsetdError:
        raise NotImplementedError


def _set_bound(
    request: history_pb2.ListOffsetHistoryRequest,
    name: str,
    bound: datetime | SupportsIndex | None,
) -> None:
    if isinstance(bound, datetime):
        getattr(request, f"{name}_time").FromDatetime(bound)
    elif bound is not None:
        setattr(request, f"{name}_revision", operator.index(bound))


def _event(event: history_pb2.OffsetEvent) -> OffsetEvent:
    change = event.WhichOneof("change")
    committed = event.committed
    is_commit = change == "committed"
    return OffsetEvent(
        group_id=event.group_id,
        topic_partition=TopicPartition(event.topic, event.partition),
        revision=revision_of(event.revision),
        time=event.time.ToDatetime(tzinfo=UTC),
        offset=committed.offset if is_commit else None,
        leader_epoch=committed.leader_epoch if committed.HasField("leader_epoch") else None,
        metadata=committed.metadata,
        commit_time=_time_in(committed, "commit_time"),
        expire_time=_time_in(committed, "expire_time"),
        is_readable=change is not None,
    )


def _time_in(message: history_pb2.CommittedPosition, field: str) -> datetime | None:
    if not message.HasField(field):
        return None
    time_of: datetime = getattr(message, field).ToDatetime(tzinfo=UTC)
    return time_of


def _restored(offset: history_pb2.RestoredOffset) -> RestoredOffset:
    return RestoredOffset(
        topic_partition=TopicPartition(offset.topic, offset.partition),
        offset_before=offset.offset_before if offset.HasField("offset_before") else None,
        offset_after=offset.offset_after if offset.HasField("offset_after") else None,
        revision=revision_of(offset.revision) if offset.HasField("revision") else None,
    )

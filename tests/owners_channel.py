"""A gRPC channel to all nodes of a cluster: stubs of one server reach each group's owner by it.

It does what the contract asks of any client. FindCoordinator names the owner of a group, and
NOT_COORDINATOR names a newer one. What is about several groups is asked of each owner. All other
refusals are the caller's, as those of one server.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo
from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)
from offsetd_clients.calling.group_owners import group_of, is_of_several
from offsetd_clients.cluster_parts import Part, further_parts, parts_of, token_of
from patience import PATIENCE_SECONDS
from refusals import status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

METHODS: Final[Mapping[str, MethodDescriptor]] = {
    f"/{service.full_name}/{method.name}": method
    for module in (acl_service_pb2, admin_service_pb2, group_service_pb2, offset_service_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
CALL_SECONDS: Final = 10.0
WAIT_SECONDS: Final = 0.05
PAGE_SIZE: Final = 1000
"""Of a list, if the caller leaves it to the server."""
_ADMIN: Final = "/offsetd.v1.AdminService"
_DESCRIBE: Final = admin_service_pb2.DescribeClusterRequest()


class OwnersChannel(grpc.Channel):
    """Calls go to the owner of the request's group; those about no group to the first node."""

    def __init__(self, channels: Mapping[str, grpc.Channel]) -> None:
        """`channels` by the address that their node has for clients."""
        self.channels = channels
        self.home = next(iter(channels))
        self._owners: dict[str, str] = {}

    def wait_until_shared(self) -> None:
        """Returns once each node serves its share. Until then log partitions move."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self._is_shared():
            assert time.monotonic() < end, "nodes of a new cluster do not share the log partitions"
            time.sleep(WAIT_SECONDS)

    def _is_shared(self) -> bool:
        served = 0
        for address in self.channels:
            cluster = self.ask(address, f"{_ADMIN}/DescribeCluster", _DESCRIBE)
            owners = {each.node_id for each in cluster.partitions}
            shares = min(len(self.channels), len(cluster.partitions))
            if "" in owners or len(owners) != shares or len(cluster.nodes) != len(self.channels):
                return False
            served += sum(
                each.state == admin_service_pb2.LOG_PARTITION_STATE_SERVING
                for each in cluster.partitions
            )
        return served == len(cluster.partitions)

    def owner(self, group_id: str) -> str:
        """The address of the group's owner; that of the first node for a name that is refused."""
        if group_id not in self._owners:
            request = admin_service_pb2.FindCoordinatorRequest(group_id=group_id)
            try:
                found = self.ask(self.home, f"{_ADMIN}/FindCoordinator", request)
            except grpc.RpcError:
                return self.home
            if found.address not in self.channels:
                return self.home
            self._owners[group_id] = found.address
        return self._owners[group_id]

    def learn(self, group_id: str, error: grpc.RpcError) -> bool:
        """Whether another node is to be asked, because the group is not with the one that was."""
        info = ErrorInfo()
        for packed in status_of(error).details:
            if packed.Is(info.DESCRIPTOR):
                packed.Unpack(info)
        if info.reason != "NOT_COORDINATOR":
            return False
        self._owners.pop(group_id, None)
        address = info.metadata.get("address", "")
        if address in self.channels:
            self._owners[group_id] = address
        return True

    def ask(self, address: str, path: str, request: Message, **options: Any) -> Any:
        """The answer of one node to a unary call."""
        answer_type = GetMessageClass(METHODS[path].output_type)
        call: Any = self.channels[address].unary_unary(
            path, type(request).SerializeToString, answer_type.FromString
        )
        return call(request, **{"timeout": CALL_SECONDS, **options})

    def unary_unary(self, method: str, *converters: Any, **named: Any) -> Any:
        return _UnaryMethod(self, "unary_unary", method, converters, named)

    def unary_stream(self, method: str, *converters: Any, **named: Any) -> Any:
        return _UnaryMethod(self, "unary_stream", method, converters, named)

    def stream_unary(self, method: str, *converters: Any, **named: Any) -> Any:
        return self.channels[self.home].stream_unary(method, *converters, **named)

    def stream_stream(self, method: str, *converters: Any, **named: Any) -> Any:
        return _CommitStreams(self, "stream_stream", method, converters, named)

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        self.channels[self.home].subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        self.channels[self.home].unsubscribe(callback)

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Method:
    """A method of all nodes, with the caller's own conversions, which may be none."""

    def __init__(
        self, channel: OwnersChannel, kind: str, path: str, converters: Any, named: Any
    ) -> None:
        self.channel = channel
        self.path = path
        self._at = {
            address: getattr(each, kind)(path, *converters, **named)
            for address, each in channel.channels.items()
        }
        self._serializer = (*converters, None)[0] or named.get("request_serializer")
        self._deserializer = (*converters, None, None)[1] or named.get("response_deserializer")

    def at(self, address: str) -> Any:
        """The method of one node."""
        return self._at[address]

    def message(self, request: Any) -> Any:
        """The request as a message; None for bytes that are none, and for unknown methods."""
        if self._serializer is not None or self.path not in METHODS:
            return request if self.path in METHODS else None
        try:
            return GetMessageClass(METHODS[self.path].input_type).FromString(request)
        except DecodeError:
            return None

    def answer(self, message: Message) -> Any:
        """A message as the caller takes it."""
        return message if self._deserializer is not None else message.SerializeToString()


class _UnaryMethod(_Method):
    """A method that takes one request."""

    def __call__(self, request: Any, **options: Any) -> Any:
        message = self.message(request)
        together = _TOGETHER.get(self.path)
        if message is not None and together is not None:
            answer = together(self.channel, message, options)
            if answer is not None:
                return self.answer(answer)
        group_id = "" if message is None else group_of(message)
        end = time.monotonic() + (options.get("timeout") or PATIENCE_SECONDS)
        while True:
            try:
                return self._call(group_id, request, options)
            except grpc.RpcError as error:
                if not group_id or not self.channel.learn(group_id, error):
                    raise
                if time.monotonic() > end:
                    raise
                time.sleep(WAIT_SECONDS)

    def future(self, request: Any, **options: Any) -> Any:
        """A call that goes on; it is not sent to another node later."""
        return self.at(self.channel.owner(group_of(self.message(request)))).future(
            request, **options
        )

    def _call(self, group_id: str, request: Any, options: Any) -> Any:
        address = self.channel.owner(group_id) if group_id else self.channel.home
        return self.at(address)(request, **options)


class _CommitStreams(_Method):
    """A stream of commits: one to each owner, and their answers as they come."""

    def __call__(self, requests: Iterator[Any], **options: Any) -> Any:
        return _Answers(self, requests, options)


class _Answers:
    """The answers of the streams to all nodes. Each message goes to the owners of its groups.

    At most one message and one answer wait here: so a stream that is not read is held back.
    """

    def __init__(self, method: _CommitStreams, requests: Iterator[Any], options: Any) -> None:
        self._method = method
        self._options = options
        self._requests = requests
        self._answers: queue.Queue[Any] = queue.Queue(1)
        self._calls: dict[str, tuple[Any, queue.Queue[Any]]] = {}
        self._unended = 1  # The sender, and the streams.
        self._is_over = False
        self._lock = threading.Lock()
        threading.Thread(target=self._send, daemon=True).start()

    def __iter__(self) -> _Answers:
        return self

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        answer = self._answers.get()
        if isinstance(answer, Exception):
            self.cancel()
            raise answer
        return answer

    def cancel(self) -> None:
        """Cancels the streams to all nodes."""
        self._is_over = True
        with self._lock:
            for call, waiting in self._calls.values():
                call.cancel()
                with contextlib.suppress(queue.Full):
                    waiting.put_nowait(None)  # Who waits for it need not any more.

    def _send(self) -> None:
        try:
            for request in self._requests:
                for address, message in self._by_owner(request):
                    self._put(self._queue(address), message)
                if self._is_over:
                    return
        finally:
            if not self._calls:
                self._queue(self._method.channel.home)
            for _, waiting in self._calls.values():
                self._put(waiting, None)
            self._end()

    def _by_owner(self, request: Any) -> list[tuple[str, Any]]:
        """The parts of a message. What is no message goes where the newest stream does."""
        channel = self._method.channel
        message = self._method.message(request)
        if message is None:
            return [(next(reversed(self._calls), channel.home), request)]
        owners = dict.fromkeys(channel.owner(each.commit.group_id) for each in message.commits)
        if len(owners) <= 1:
            return [(next(iter(owners), channel.home), request)]
        parts = []
        for owner in owners:
            part = type(message)(traceparent=message.traceparent)
            part.commits.extend(
                each for each in message.commits if channel.owner(each.commit.group_id) == owner
            )
            parts.append((owner, part))
        return parts

    def _queue(self, address: str) -> queue.Queue[Any]:
        """What the stream to a node sends next. It begins with the first message for the node."""
        with self._lock:
            if address not in self._calls:
                waiting: queue.Queue[Any] = queue.Queue(1)
                call = self._method.at(address)(iter(waiting.get, None), **self._options)
                self._calls[address] = call, waiting
                self._unended += 1
                threading.Thread(target=self._receive, args=(call,), daemon=True).start()
            return self._calls[address][1]

    def _put(self, where: queue.Queue[Any], what: Any) -> None:
        """Waits for room, unless the call is over."""
        while not self._is_over:
            with contextlib.suppress(queue.Full):
                where.put(what, timeout=WAIT_SECONDS)
                return

    def _receive(self, call: Any) -> None:
        try:
            for answer in call:
                self._put(self._answers, answer)
        except grpc.RpcError as error:
            self._put(self._answers, error)
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._unended -= 1
            is_end = self._unended == 0
        if is_end:
            self._put(self._answers, StopIteration())


def _listed(channel: OwnersChannel, request: Any, options: Any) -> Any:
    """One page of the groups of all nodes. None: for the first node to refuse."""
    try:
        parts = parts_of(request.page_token)
    except ValueError:
        return None
    if request.this_node_only or request.log_partitions or request.page_size < 0:
        return None
    together = group_service_pb2.ListGroupsResponse()
    size = request.page_size or PAGE_SIZE
    while parts and (missing := size - len(together.groups)) > 0:
        part = parts.pop(0)
        asked = type(request)()
        asked.CopyFrom(request)
        asked.page_size, asked.page_token, asked.this_node_only = missing, part.page_token, True
        asked.log_partitions[:] = part.log_partitions
        answer = channel.ask(_node_of(channel, part), METHOD_OF_LISTS, asked, **options)
        together.groups.extend(answer.groups)
        together.unreachable_log_partitions.extend(answer.unreachable_log_partitions)
        parts[:0] = further_parts(answer)
    together.next_page_token = token_of(parts)
    return together


METHOD_OF_LISTS: Final = "/offsetd.v1.GroupService/ListGroups"


def _node_of(channel: OwnersChannel, part: Part) -> str:
    """The node that serves the part's log partitions."""
    return served_by(channel).get((*part.log_partitions, -1)[0], channel.home)


def served_by(channel: OwnersChannel) -> dict[int, str]:
    """The address of each log partition's node."""
    cluster = channel.ask(channel.home, f"{_ADMIN}/DescribeCluster", _DESCRIBE)
    addresses = {each.node_id: each.address for each in cluster.nodes}
    return {
        each.log_partition: addresses[each.node_id]
        for each in cluster.partitions
        if addresses.get(each.node_id) in channel.channels
    }


def _fetched(channel: OwnersChannel, request: Any, options: Any) -> Any:
    """The offsets of several groups, each from its owner."""
    if (
        not is_of_several(request)
        or len({channel.owner(each.group_id) for each in request.groups}) == 1
    ):
        return None
    together = offset_service_pb2.FetchOffsetsResponse()
    for selection in request.groups:
        one = type(request)(groups=[selection], require_stable=request.require_stable)
        path = "/offsetd.v1.OffsetService/FetchOffsets"
        answer = channel.ask(channel.owner(selection.group_id), path, one, **options)
        together.groups.extend(answer.groups)
    return together


def _cloned(channel: OwnersChannel, request: Any, options: Any) -> Any:
    """A clone, for which the owner of the target may need what another node has of the source."""
    source, target = map(channel.owner, (request.source_group_id, request.target_group_id))
    if source == target or request.HasField("source_offsets"):
        return None
    selection = offset_service_pb2.GroupSelection(group_id=request.source_group_id)
    asked = offset_service_pb2.FetchOffsetsRequest(groups=[selection])
    held = channel.ask(source, "/offsetd.v1.OffsetService/FetchOffsets", asked)
    with_offsets = type(request)()
    with_offsets.CopyFrom(request)
    with_offsets.source_offsets.CopyFrom(held.groups[0])
    path = "/offsetd.v1.GroupService/CloneGroup"
    return channel.ask(target, path, with_offsets, **options)


def _logs(channel: OwnersChannel, request: Any, options: Any) -> Any:
    """Each log partition of the offsets as its node describes it: the others have copies."""
    path = f"{_ADMIN}/DescribeLog"
    if request.topic not in ("", "__consumer_offsets") or request.partitions:
        return None
    answers = {each: channel.ask(each, path, request, **options) for each in channel.channels}
    nodes = served_by(channel)
    together = answers[channel.home]
    rows = {
        (address, row.partition): row
        for address, answer in answers.items()
        for row in answer.partitions
    }
    owned = [rows[nodes[number], number] for number in sorted(nodes)]
    del together.partitions[:]
    together.partitions.extend(owned)
    return together


def _configured(channel: OwnersChannel, request: Any, options: Any) -> Any:
    """Settings are a node's own: what is one server's is changed on each of them."""
    path = f"{_ADMIN}/UpdateConfig"
    answers = [channel.ask(each, path, request, **options) for each in channel.channels]
    return answers[0]


_TOGETHER: Final[Mapping[str, Callable[[OwnersChannel, Any, Any], Any]]] = {
    METHOD_OF_LISTS: _listed,
    "/offsetd.v1.OffsetService/FetchOffsets": _fetched,
    "/offsetd.v1.GroupService/CloneGroup": _cloned,
    f"{_ADMIN}/DescribeLog": _logs,
    f"{_ADMIN}/UpdateConfig": _configured,
}
"""Calls about groups of several nodes. None: it is a call to one node after all."""

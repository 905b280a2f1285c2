"""ExportOffsets: the offsets of groups as a file, sent piece by piece."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from offsetd.v1 import admin_service_pb2
from offsetd_storage.offsets_topic.offset_file_formats import (
    OF_ONE_GROUP,
    FileOffset,
    OffsetFormat,
    Unwritable,
    written,
)

from offsetd_coordinator.calls import answer_reservations, current_call
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import (
    InvalidGroupId,
    InvalidRequest,
    LogPartitionQuarantined,
    undecodable_offset,
)
from offsetd_coordinator.large_groups.group_reading import read_group
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.fetch_parser import ITEMS_PER_GROUP
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.services.cluster_calls import node_share
from offsetd_coordinator.services.durable_answers import once_durable
from offsetd_coordinator.state.group_search import ITEMS_PER_PART, GroupSearch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator

    from offsetd_coordinator.committed_offsets import CommittedOffset, OffsetRows
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.services.cluster_calls import NodeShare

PIECE_BYTES: Final = 64 * 1024
# A piece is in memory three times: as text, as a message, and in gRPC's buffer.
_PIECE_COPIES: Final = 3


class ExportService:
    """The method: it takes a request's bytes and yields the bytes of its answers."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def export_offsets(self, message: bytes) -> AsyncIterator[bytes]:
        """Yields the file in pieces. A piece is sent once all offsets in it are durable.

        Each group is read as of one moment; different groups may be read at different moments.
        """
        request = validation.parse(admin_service_pb2.ExportOffsetsRequest, message)
        file_format = read_format(request.format, "format")
        turns = Turns()
        named = await _named_groups(request, file_format, turns)
        topics = set(await validation.read_topics(request.topics, turns))
        async for group_id in turns.each(named):
            await self._check_exists(group_id)
        names_group = request.names_group or len(named) != 1
        export = _Export(self._node, file_format, topics, turns, names_group=names_group)
        if named:
            async for response in export.pieces(named):
                yield response
            return
        begins = validation.read_group_id(request.group_id_prefix, "group_id_prefix")
        share = _share(self._node.serving(), request)
        if share.message is None:
            async for response in export.pieces(self._all(share.partitions, begins, turns)):
                yield response
            return
        yield admin_service_pb2.ExportOffsetsResponse(cluster=share.message).SerializeToString()
        for partition in share.partitions:
            async for response in export.pieces(self._all([partition], begins, turns), partition):
                yield response

    async def _check_exists(self, group_id: bytes) -> None:
        runtime = self._node.serving()
        try:
            await once_durable(runtime, *runtime.get_group(group_id))
        except LogPartitionQuarantined as error:
            raise LogPartitionQuarantined(
                "group {group!r} cannot be exported: {cause}",
                **{**error.variables, "group": group_id, "cause": error},
            ) from error

    async def _all(
        self, partitions: Sequence[int], prefix: bytes, turns: Turns
    ) -> AsyncIterator[bytes]:
        """The ids of the groups with the prefix, by log partition and id.

        Raises LogPartitionQuarantined, because the groups of a damaged log partition are unknown.
        """
        runtime = self._node.serving()
        for partition in partitions:
            found: list[bytes] = []
            for part in runtime.list_groups(partition, GroupSearch(prefix=prefix)):
                ids = (each.group_id for each in part)
                found += [each for each in ids if _may_describe(ResourceType.GROUP, each)]
                await turns.spend(len(part) + ITEMS_PER_PART)
            for group_id in sorted(found):
                yield group_id
            await turns.spend(ITEMS_PER_GROUP)


class _Export:
    """The pieces of one file."""

    def __init__(
        self,
        node: Node,
        file_format: OffsetFormat,
        topics: Collection[bytes],
        turns: Turns,
        *,
        names_group: bool,
    ) -> None:
        self._node = node
        self._format = file_format
        self._topics = topics
        self._turns = turns
        self._names_group = names_group

    async def pieces(
        self, group_ids: AsyncIterator[bytes] | Sequence[bytes], partition: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yields answers with the offsets of groups.

        If `partition` is given, all groups are of this log partition, and the last answer says that
        the log partition is complete.
        """
        turns, piece = self._turns, bytearray()
        async for group_id in _each(group_ids):
            await turns.spend(ITEMS_PER_GROUP)
            runtime = self._node.serving()
            _, shard = runtime.shard_of(group_id)
            offsets = shard.offsets.count(group_id)
            await answer_reservations.reserve(
                answer_reservations.BYTES_PER_OFFSET * offsets + _PIECE_COPIES * PIECE_BYTES
            )
            rows = await read_group(runtime, group_id)
            chosen = (
                each
                for each in _readable(group_id, rows, self._topics)
                if _may_describe(ResourceType.TOPIC, each.topic)
            )
            texts = _texts(self._format, group_id, chosen, names_group=self._names_group)
            async for text in turns.each(texts):
                piece += text.encode()
                if len(piece) >= PIECE_BYTES:
                    yield _response(piece)
                    piece.clear()
            answer_reservations.let_go()
        if piece or partition is not None:
            await answer_reservations.reserve(_PIECE_COPIES * len(piece))
            yield _response(piece, partition)


def _may_describe(resource_type: ResourceType, name: bytes) -> bool:
    access = current_call.access()
    return access is None or access.allows(Operation.DESCRIBE, resource_type, name.decode())


async def _each(group_ids: AsyncIterator[bytes] | Sequence[bytes]) -> AsyncIterator[bytes]:
    if isinstance(group_ids, Sequence):
        for each in group_ids:
            yield each
        return
    async for each in group_ids:
        yield each


def _share(runtime: Runtime, request: admin_service_pb2.ExportOffsetsRequest) -> NodeShare:
    return node_share(
        runtime,
        range(runtime.partitions),
        named=request.log_partitions,
        this_node_only=request.this_node_only,
    )


def read_format(number: int, field: str) -> OffsetFormat:
    """The format with this number. Raises InvalidRequest."""
    with contextlib.suppress(ValueError):
        return OffsetFormat(number)
    raise InvalidRequest(field, "{value} is not a file format", value=number)


async def _named_groups(
    request: admin_service_pb2.ExportOffsetsRequest, file_format: OffsetFormat, turns: Turns
) -> list[bytes]:
    places: dict[bytes, int] = {}
    async for place, text in turns.each(enumerate(request.group_ids)):
        group_id = validation.read_group_id(text, f"group_ids[{place}]")
        if places.setdefault(group_id, place) != place:
            raise InvalidGroupId(f"group_ids[{place}]", "{group!r} is named twice", group=group_id)
    named = list(places)
    if named and request.group_id_prefix:
        raise InvalidRequest("group_id_prefix", "give either group ids or a prefix, not both")
    if named and request.log_partitions:
        raise InvalidRequest("log_partitions", "give either group ids or log partitions, not both")
    if file_format in OF_ONE_GROUP and len(named) != 1:
        raise InvalidRequest(
            "group_ids",
            "a file of format {format} has one group: give its id",
            format=file_format.name,
        )
    return named


def _readable(
    group_id: bytes, rows: OffsetRows, topics: Collection[bytes]
) -> Iterator[CommittedOffset]:
    """The offsets of these topics, or all if `topics` is empty. Raises RecordUndecodable."""
    for each in rows.committed():
        if not each.is_decodable:
            raise undecodable_offset(group_id, each.topic, each.partition)
        if not topics or each.topic in topics:
            yield each


def _texts(
    file_format: OffsetFormat,
    group_id: bytes,
    stored: Iterator[CommittedOffset],
    *,
    names_group: bool,
) -> Iterator[str]:
    group = group_id.decode()
    first = next(stored, None)
    if file_format is OffsetFormat.KAFKA_UTILS_JSON and first is None:
        yield json.dumps({"groupid": group, "offsets": {}}, ensure_ascii=False) + "\n"
    offsets = (
        FileOffset(
            group,
            each.topic.decode(),
            each.partition,
            each.offset,
            each.leader_epoch,
            each.metadata.decode(),
            each.commit_timestamp_ms,
            each.expire_timestamp_ms,
            each.revision,
        )
        for each in (() if first is None else chain((first,), stored))
    )
    try:
        yield from written(file_format, offsets, names_group=names_group)
    except Unwritable as error:
        raise InvalidRequest(
            "format",
            "a file of format {format} cannot hold the offsets of group {group!r}: {cause}",
            format=file_format.name,
            group=group,
            cause=error,
        ) from error


def _response(piece: bytearray, completed: int | None = None) -> bytes:
    return admin_service_pb2.ExportOffsetsResponse(
        content=bytes(piece), completed_log_partition=completed
    ).SerializeToString()

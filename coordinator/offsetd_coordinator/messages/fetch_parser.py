"""Reads checked fetches from a request's bytes: a kernel reads plain ones, protobuf the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.errors import InvalidGroupId
from offsetd_coordinator.messages import validation
from offsetd_coordinator.wire.group_selections import PartitionKeys, SelectionReader

if TYPE_CHECKING:
    from offsetd_coordinator.cooperative_scheduling import Turns
    from offsetd_coordinator.wire.group_selections import GroupSelection

_BYTES_AT_ONCE: Final = 64 * 1024
ITEMS_PER_GROUP: Final = 10
"""The cost of a group without its partitions, as a number of partitions."""


class FetchParser:
    """Reads fetches, and refuses those that break a rule. For the event loop's thread."""

    def __init__(self) -> None:
        self._reader = SelectionReader()

    async def parse(self, message: bytes, turns: Turns) -> list[GroupSelection]:
        """The selections of a FetchOffsetsRequest, one for each group.

        Raises the Invalid… error of the first field that breaks a rule.
        """
        selections = self._reader.read(message)
        if selections is None and len(message) > _BYTES_AT_ONCE:
            reader = SelectionReader.for_size(len(message))
            selections = await asyncio.to_thread(reader.read, message)
        if selections is not None:
            return selections
        request = validation.parse(offset_service_pb2.FetchOffsetsRequest, message)
        return await checked_selections(request, turns)


async def checked_selections(
    request: offset_service_pb2.FetchOffsetsRequest, turns: Turns
) -> list[GroupSelection]:
    """The selections of a request that protobuf has parsed, checked."""
    selections: dict[bytes, GroupSelection] = {}
    for index, selection in enumerate(request.groups):
        field = f"groups[{index}]"
        group_id = validation.read_group_id(selection.group_id, f"{field}.group_id")
        if group_id in selections:
            raise InvalidGroupId(f"{field}.group_id", "{group!r} is named twice", group=group_id)
        named = validation.topic_partitions(selection.partitions, f"{field}.partitions")
        keys = PartitionKeys(group_id)
        async for partition in turns.each(named):
            keys.add(*partition)
        selections[group_id] = keys.selection(
            is_all=not selection.partitions, require_stable=request.require_stable
        )
        await turns.spend(ITEMS_PER_GROUP)
    return list(selections.values())

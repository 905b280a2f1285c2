"""Answers that list any number of changes, encoded in turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from offsetd_coordinator.cooperative_scheduling import Turns, first_turn, parts
from offsetd_coordinator.messages.revisions import set_revision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from offsetd.v1 import offset_service_pb2

    from offsetd_coordinator.offset_changes import OffsetChange

Item = TypeVar("Item")

_BYTES_AT_ONCE: Final = 1 << 20
"""A larger answer is joined on a thread instead of on the event loop."""


class Message(Protocol):
    """An answer: any protobuf message."""

    def SerializeToString(self) -> bytes:  # noqa: N802  # protobuf's name
        """The message's bytes."""


SomeMessage = TypeVar("SomeMessage", bound=Message)


async def encoded_with(
    response: SomeMessage,
    items: Iterable[Item],
    add: Callable[[SomeMessage, Item], None],
) -> bytes:
    """Encodes the answer and the items, some items in each turn of the event loop.

    `add` adds one item to a message of the answer's type. The bytes of such messages are
    concatenated; protobuf reads them as one message.
    """
    await first_turn()
    pieces, turns = [response.SerializeToString()], Turns()
    for part in parts(items):
        message = type(response)()
        for item in part:
            add(message, item)
        pieces.append(message.SerializeToString())
        await turns.spend(len(part))
    if sum(map(len, pieces)) > _BYTES_AT_ONCE:
        return await asyncio.to_thread(b"".join, pieces)
    return b"".join(pieces)


def set_change(
    message: offset_service_pb2.OffsetChange, log_partition: int, change: OffsetChange
) -> None:
    """Fills in the change of one offset. The change is not a deletion."""
    assert change.after is not None, "neither a reset, a clone nor an import deletes"
    message.topic = change.topic.decode()
    message.partition = change.partition
    if change.before is not None:
        message.offset_before = change.before
    message.offset_after = change.after
    set_revision(message.revision, log_partition, change.revision)

"""The answer to a fetch, encoded group by group and bit by bit.

So it is never held twice, and nobody waits until all of a large one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.errors import ResponseTooLarge
from offsetd_coordinator.expiry import expires_at_ms
from offsetd_coordinator.service.times import set_time
from offsetd_coordinator.service.turns import ITEMS_PER_TURN
from offsetd_coordinator.varints import encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_coordinator.expiry import GroupRule
    from offsetd_coordinator.requests import CommittedOffset
    from offsetd_coordinator.service.turns import Turns

RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024

# A field's key, of a message within a message: number << 3 | wire type.
_GROUPS_FIELD: Final = offset_service_pb2.FetchOffsetsResponse.DESCRIPTOR.fields_by_name["groups"]
_GROUPS_KEY: Final = bytes([_GROUPS_FIELD.number << 3 | 2])


class FetchAnswer:
    """A FetchOffsetsResponse in the making."""

    def __init__(self, turns: Turns, *, bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self._turns = turns
        self._bytes_max = bytes_max
        self._size = 0
        self._parts: list[bytes] = []

    async def add(
        self,
        group_id: bytes,
        log_partition: int,
        offsets: Sequence[CommittedOffset],
        rule: GroupRule | None = None,
    ) -> None:
        """Adds a group, the offsets of which expire by `rule`, if they do.

        Raises ResponseTooLarge if the answer becomes so.
        """
        head = offset_service_pb2.GroupOffsets(
            group_id=group_id.decode(), log_partition=log_partition
        ).SerializeToString()
        parts = [head]
        size = len(head)
        for start in range(0, len(offsets), ITEMS_PER_TURN):
            several = offsets[start : start + ITEMS_PER_TURN]
            # Parts of a message, one behind the other, are the message.
            part = offset_service_pb2.GroupOffsets(
                offsets=[committed_offset(each, rule) for each in several]
            ).SerializeToString()
            parts.append(part)
            size += len(part)
            self._check(size)
            await self._turns.spend(len(several))
        self._size += size
        self._check(0)
        self._parts += [_GROUPS_KEY, encode_varint(size), *parts]

    def encoded(self) -> bytes:
        """The answer's bytes."""
        return b"".join(self._parts)

    def _check(self, more: int) -> None:
        if self._size + more > self._bytes_max:
            raise ResponseTooLarge(
                "the answer exceeds {bytes_max} bytes: ask for fewer groups or partitions at once",
                bytes_max=self._bytes_max,
            )


def committed_offset(
    stored: CommittedOffset, rule: GroupRule | None = None
) -> offset_service_pb2.CommittedOffset:
    """A stored offset, as it is answered. Without a rule of its group it does not expire."""
    message = offset_service_pb2.CommittedOffset(
        topic=stored.topic.decode(),
        partition=stored.partition,
        offset=stored.offset,
        leader_epoch=stored.leader_epoch if stored.leader_epoch >= 0 else None,
        metadata=stored.metadata.decode(),
        revision=stored.revision,
        end_offset=stored.end_offset if stored.end_offset >= 0 else None,
    )
    set_time(message.commit_time, stored.commit_timestamp_ms)
    if rule is not None and (expires_ms := _expires_ms(stored, rule)) is not None:
        set_time(message.expire_time, expires_ms)
    return message


def _expires_ms(stored: CommittedOffset, rule: GroupRule) -> int | None:
    """When it expires, as far as that is known: not while a member reads its topic."""
    if rule.is_subscribed is not None and rule.is_subscribed(stored.topic.decode()):
        return None
    return expires_at_ms(
        rule,
        commit_timestamp_ms=stored.commit_timestamp_ms,
        expire_timestamp_ms=stored.expire_timestamp_ms,
    )

"""Encodes the metadata of a joining consumer, and its assignment, like Kafka's consumers.

They are Kafka's `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`: an int16 version,
then fields. Newer versions only add fields at the end. This module writes version 3 and reads any.
"""

import struct
from collections.abc import Iterable, Mapping
from itertools import groupby

from offsetd_clients.assignors import ASSIGNORS, Subscription
from offsetd_clients.membership_values import JoinedGroup
from offsetd_clients.values import TopicPartition

_VERSION = 3
_NULL = -1
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


class MalformedProtocol(ValueError):
    """The bytes are not a subscription, or not an assignment."""


def encode_subscription(subscription: Subscription) -> bytes:
    """Encodes the metadata of a joining member, for each assignor that it knows.

    It has no instance id: the join request has it. The partitions that the member owns are in
    separate fields, as with Kafka's cooperative consumers. Kafka's older sticky assignor has them
    in the user data.
    """
    return b"".join(
        (
            _SHORT.pack(_VERSION),
            _INT.pack(len(subscription.topics)),
            *map(_text, sorted(subscription.topics)),
            _INT.pack(_NULL),  # No user data.
            _partitions(subscription.owned),
            _INT.pack(subscription.generation_id),
            _SHORT.pack(_NULL),  # No rack.
        )
    )


def decode_subscription(encoded: bytes, instance_id: str | None = None) -> Subscription:
    """Decodes a member's metadata. `instance_id` is from its join. Raises MalformedProtocol."""
    reader = _Reader(encoded)
    version = reader.version()
    topics = [reader.text() for _ in range(reader.count())]
    reader.skip_bytes()
    owned = reader.partitions() if version >= 1 else []
    generation_id = reader.int32() if version >= 2 else -1
    return Subscription(
        topics=topics, owned=owned, generation_id=generation_id, instance_id=instance_id
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encodes the assignment of a member."""
    return _SHORT.pack(_VERSION) + _partitions(partitions) + _INT.pack(_NULL)  # No user data.


def decode_assignment(encoded: bytes) -> list[TopicPartition]:
    """Decodes the assignment of a member. Empty if the leader left it out.

    Raises MalformedProtocol.
    """
    if not encoded:
        return []
    reader = _Reader(encoded)
    reader.version()
    return reader.partitions()


def assignments_by(joined: JoinedGroup, partition_counts: Mapping[str, int]) -> dict[str, bytes]:
    """The assignments, by member id, that the group's assignor makes and the leader sends.

    Empty if the member is not the leader, or if the assignments stay as they are. Raises
    MalformedProtocol, and KeyError if the group's protocol is not in `ASSIGNORS`.
    """
    if not joined.is_leader or joined.skip_assignment:
        return {}
    subscriptions = {
        each.member_id: decode_subscription(each.metadata, each.instance_id)
        for each in joined.members
    }
    assigned = ASSIGNORS[joined.protocol](subscriptions, partition_counts)
    return {member_id: encode_assignment(partitions) for member_id, partitions in assigned.items()}


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """The partitions, sorted and grouped by topic."""
    topics = []
    ordered = sorted(partitions, key=lambda each: (each.topic, each.partition))
    for topic, of_topic in groupby(ordered, key=lambda each: each.topic):
        numbers = [each.partition for each in of_topic]
        topics.append(_text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return _INT.pack(len(topics)) + b"".join(topics)


class _Reader:
    """Reads one field after the other. Raises MalformedProtocol if the bytes end too soon."""

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._position = 0

    def version(self) -> int:
        version = self._int16()
        if version < 0:
            raise MalformedProtocol(f"there is no version {version}")
        return version

    def int32(self) -> int:
        number: int = _INT.unpack(self._take(_INT.size))[0]
        return number

    def count(self) -> int:
        """The length of a list. A list cannot have more items than bytes are left."""
        count = self.int32()
        if not 0 <= count <= len(self._encoded) - self._position:
            raise MalformedProtocol(f"no list of {count} items at byte {self._position}")
        return count

    def text(self) -> str:
        start = self._position
        try:
            return self._take(self._int16()).decode()
        except UnicodeDecodeError as error:
            raise MalformedProtocol(f"no UTF-8 at byte {start}") from error

    def skip_bytes(self) -> None:
        size = self.int32()
        if size != _NULL:
            self._take(size)

    def partitions(self) -> list[TopicPartition]:
        found = []
        for _ in range(self.count()):
            topic = self.text()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.count())]
        return found

    def _int16(self) -> int:
        number: int = _SHORT.unpack(self._take(_SHORT.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        start = self._position
        if not 0 <= size <= len(self._encoded) - start:
            raise MalformedProtocol(f"{size} bytes are missing at byte {start}")
        self._position = start + size
        return self._encoded[start : self._position]

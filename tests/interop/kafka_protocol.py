"""Requests of Kafka's protocol over a plain socket, for what librdkafka 2.16 will not do.

It waits without end for the answer to a commit when the broker has gone. Its admin call for a
group's offsets crashes on an answer that is an error, as that of a coordinator which is loading,
and reads past the end of metadata that another client wrote, without librdkafka's final NUL. Its
Python client cannot delete offsets.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from itertools import count
from types import TracebackType
from typing import Self

import attrs
from offsetd_storage.offsets_topic.placement import partition_of

CALL_S_MAX = 30
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
OFFSET_DELETE = 47


class KafkaRefused(Exception):
    """The broker answered with an error."""


@attrs.frozen(kw_only=True)
class KafkaOffset:
    """An offset as a broker answers it; `leader_epoch` None: none."""

    offset: int
    leader_epoch: int | None
    metadata: str


class KafkaConnection:
    """A connection to a broker. Raises OSError when the broker goes away."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=CALL_S_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def call(self, kind: int, version: int, body: bytes) -> bytes:
        """A request of any kind; the answer behind the correlation id."""
        request = struct.pack(">hhih", kind, version, 0, -1) + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)[4:]

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], KafkaOffset]) -> bool:
        """Commits for a group without members; whether the broker acknowledged every offset."""
        body = _string(group_id) + struct.pack(">i", -1) + _string("") + struct.pack(">q", -1)
        body += struct.pack(">i", len(offsets))
        for (topic, partition), stored in offsets.items():
            assert stored.leader_epoch is None, "this version has none"
            body += _string(topic) + struct.pack(">iiq", 1, partition, stored.offset)
            body += _string(stored.metadata)
        answer = Answer(self.call(OFFSET_COMMIT, 2, body))
        errors = []
        for _ in range(answer.number("i")):
            answer.string()
            for _ in range(answer.number("i")):
                answer.number("i")
                errors.append(answer.number("h"))
        return errors == [0] * len(offsets)

    def offsets(self, group_id: str) -> dict[tuple[str, int], KafkaOffset]:
        """All that is stored of a group. Raises KafkaRefused."""
        answer = Answer(self.call(OFFSET_FETCH, 5, _string(group_id) + struct.pack(">i", -1)))
        answer.number("i")  # How long to slow down.
        stored: dict[tuple[str, int], KafkaOffset] = {}
        errors = []
        for _ in range(answer.number("i")):
            topic = answer.string()
            for _ in range(answer.number("i")):
                partition, offset, epoch = (answer.number(kind) for kind in "iqi")
                stored[topic, partition] = KafkaOffset(
                    offset=offset,
                    leader_epoch=None if epoch == -1 else epoch,
                    metadata=answer.string(),
                )
                errors.append(answer.number("h"))
        errors.append(answer.number("h"))
        if any(errors):
            raise KafkaRefused(f"offsets of {group_id}: error {max(errors)}")
        return stored

    def delete_offset(self, group_id: str, topic: str, partition: int) -> None:
        """As `kafka-consumer-groups.sh --delete-offsets` does. Raises KafkaRefused."""
        body = _string(group_id) + struct.pack(">i", 1) + _string(topic)
        answer = Answer(self.call(OFFSET_DELETE, 0, body + struct.pack(">ii", 1, partition)))
        errors = [answer.number("h")]
        answer.number("i")  # How long to slow down.
        for _ in range(answer.number("i")):
            answer.string()
            for _ in range(answer.number("i")):
                answer.number("i")
                errors.append(answer.number("h"))
        if any(errors):
            raise KafkaRefused(f"{topic}:{partition} of {group_id}: error {max(errors)}")

    def has_loaded_groups(self, partitions: int) -> bool:
        """Whether the broker answers for the groups of every partition of the offsets topic."""
        try:
            for group_id in _a_group_of_each_partition(partitions):
                assert self.offsets(group_id) == {}, "the group does not exist"
        except KafkaRefused:
            return False
        return True

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            more = self._socket.recv(size - len(received))
            if not more:
                raise ConnectionError("the broker closed the connection")
            received += more
        return received


@attrs.define
class Answer:
    """Reads an answer from its beginning."""

    content: bytes
    position: int = 0

    def number(self, kind: str) -> int:
        """The next number, by struct's letter."""
        number: int
        (number,) = struct.unpack_from(f">{kind}", self.content, self.position)
        self.position += struct.calcsize(f">{kind}")
        return number

    def string(self) -> str:
        size = self.number("h")
        self.position += size
        return self.content[self.position - size : self.position].decode()


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _a_group_of_each_partition(partitions: int) -> Iterator[str]:
    wanted = set(range(partitions))
    for number in count():
        group_id = f"is-loaded-{number}"
        partition = partition_of(group_id, partitions)
        if partition in wanted:
            wanted.remove(partition)
            yield group_id
        if not wanted:
            return

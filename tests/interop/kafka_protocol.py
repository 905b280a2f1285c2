"""Two requests of Kafka's protocol, spoken over a plain socket.

librdkafka waits without end for the answer to a commit when the broker has gone, and its admin
calls may crash on the answer of a coordinator that is still loading.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from itertools import count
from types import TracebackType
from typing import Self

from offsetd_coordinator.placement import partition_of

CALL_S_MAX = 30
OFFSET_COMMIT = 8
OFFSET_FETCH = 9


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

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], tuple[int, str]]) -> bool:
        """Commits offsets with metadata; whether the broker acknowledged all of them."""
        body = _string(group_id) + struct.pack(">i", -1) + _string("") + struct.pack(">q", -1)
        body += struct.pack(">i", len(offsets))
        for (topic, partition), (offset, metadata) in offsets.items():
            body += _string(topic) + struct.pack(">iiq", 1, partition, offset) + _string(metadata)
        answer = self._call(OFFSET_COMMIT, body)
        (topics,) = struct.unpack_from(">i", answer)
        position, errors = 4, []
        for _ in range(topics):
            (name_bytes,) = struct.unpack_from(">h", answer, position)
            position += 2 + name_bytes
            _, _, error = struct.unpack_from(">iih", answer, position)
            position += 10
            errors.append(error)
        return errors == [0] * len(offsets)

    def has_loaded_groups(self, partitions: int) -> bool:
        """Whether the broker answers for the groups of every partition of the offsets topic."""
        for group_id in _a_group_of_each_partition(partitions):
            answer = self._call(OFFSET_FETCH, _string(group_id) + struct.pack(">i", -1))
            topics, error = struct.unpack(">ih", answer)
            assert topics == 0, "the group does not exist"
            if error:
                return False
        return True

    def _call(self, kind: int, body: bytes) -> bytes:
        request = struct.pack(">hhih", kind, 2, 0, -1) + body  # Version 2 of either.
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)[4:]

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            more = self._socket.recv(size - len(received))
            if not more:
                raise ConnectionError("the broker closed the connection")
            received += more
        return received


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

"""The memory that each connection holds, and the budget that all answers share.

Calls count what their connection holds, on the event loop's thread; the connection guard's thread
reads the counts. An answer is counted from the moment it is built until the client has read it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from offsetd_coordinator.errors import TooManyBytesInFlight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Context(Protocol):
    """The transport's view of one call."""

    def peer(self) -> str:
        """The other end of its connection, like `ipv4:127.0.0.1:50522`."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """The metadata of the call."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What the transport knows of the peer; `x509_pem_cert` is its certificate."""

    def time_remaining(self) -> float | None:
        """The seconds until its deadline; None without a deadline."""


UNREAD: Final = "unread"
UNENDED: Final = "unended"
SILENT: Final = "silent"
IDLE: Final = "idle"
REASONS: Final = {
    UNREAD: "its answers are not read",
    UNENDED: "its messages stay incomplete",
    SILENT: "it never made a call, and other clients need its place",
    IDLE: "it has no call, and other clients need its place",
}
"""The reasons why connections are closed, by the metric's label."""

WAIT_SECONDS_MAX: Final = 30.0
"""A call that has waited this long for room is refused."""
COPIES: Final = 2
"""The number of copies of an answer in memory: our bytes, and gRPC's copy."""

# Bytes of frame headers, and of the window updates that the client sends for the answer.
_FRAMES_BYTES: Final = 128
# TLS adds some bytes to each record, and a window update can be a record of its own.
_ENCRYPTED_FRAMES_BYTES: Final = 512
_METADATA_SAMPLE: Final = 16
_ANSWER_BYTES_PER_WINDOW_BYTE: Final = 256
_ENCRYPTED_ANSWER_BYTES_PER_WINDOW_BYTE: Final = 64


class AnswerBudget:
    """A bound, in bytes, on the answers of all calls; a single answer may exceed it."""

    def __init__(self, bytes_max: int, on_room: Callable[[], None] = lambda: None) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self._on_room = on_room
        self._waiting: list[tuple[Answer, int, asyncio.Future[None]]] = []

    @property
    def waiting(self) -> int:
        """The number of calls that wait for room."""
        return len(self._waiting)

    def has_room(self, size: int, own: int = 0) -> bool:
        """Whether `size` more bytes fit for a call that holds `own` bytes already."""
        return self.bytes_held <= own or self.bytes_held + size <= self.bytes_max

    async def room(self, answer: Answer, size: int) -> None:
        """Waits until this many bytes fit, and counts them. Raises TooManyBytesInFlight."""
        if self.has_room(size) and not self._waiting:
            answer.count(size)
            return
        turn = asyncio.get_running_loop().create_future()
        entry = (answer, size, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await turn
        except BaseException as error:
            if entry in self._waiting:
                self._waiting.remove(entry)
            else:
                answer.end()
            if isinstance(error, TimeoutError):
                raise self.refusal(size) from None
            raise

    def give_back(self, size: int) -> None:
        """Removes bytes from the count, so that waiting calls may have them."""
        self.bytes_held -= size
        assert self.bytes_held >= 0, "more is given back than was held"
        while self._waiting:
            entry = min(self._waiting, key=lambda each: each[0].connection.answer_bytes)
            answer, wanted, turn = entry
            if not self.has_room(wanted):
                return
            self._waiting.remove(entry)
            if not turn.done():
                answer.count(wanted)
                turn.set_result(None)
        self._on_room()

    def refusal(self, size: int) -> TooManyBytesInFlight:
        """The error for an answer that has no room."""
        return TooManyBytesInFlight(
            "{bytes_taken} bytes of answers are in flight, and {size_bytes} more would exceed"
            " {bytes_max}",
            bytes_taken=self.bytes_held,
            size_bytes=size,
            bytes_max=self.bytes_max,
        )


class Answer:
    """One call's share of the budget."""

    __slots__ = ("_budget", "_is_sent", "bytes_held", "connection")

    def __init__(self, budget: AnswerBudget, connection: Connection) -> None:
        self.connection = connection
        self.bytes_held = 0
        self._budget = budget
        self._is_sent = False

    def count(self, size: int) -> None:
        """Adds this many bytes to the count, even without room. A negative size subtracts."""
        self.bytes_held += size
        self.connection.answer_bytes += size
        if size < 0:
            self._budget.give_back(-size)
        else:
            self._budget.bytes_held += size

    async def reserve(self, size: int) -> None:
        """Reserves room for an answer to be built. Raises TooManyBytesInFlight.

        Only a call that holds no bytes waits: a waiting call that holds some would keep them from
        others.
        """
        if not self.bytes_held:
            await self._budget.room(self, size)
        elif self._budget.has_room(size, self.bytes_held):
            self.count(size)
        else:
            raise self._budget.refusal(size)

    def build(self, size: int) -> None:
        """Counts the bytes of a whole answer until `end` is called. Raises TooManyBytesInFlight."""
        more = COPIES * size - self.bytes_held
        if more > 0 and not self._budget.has_room(more, self.bytes_held):
            raise self._budget.refusal(size)
        self.count(more)

    def send(self, size: int) -> None:
        """Does as `build`; from now on, the answer is unread. Raises TooManyBytesInFlight."""
        self.build(size)
        self._is_sent = True
        self.connection.hold_answer(size)

    def end(self) -> None:
        """Ends the count: the client's window has taken the answer, or the call has ended."""
        if self._is_sent:
            self._is_sent = False
            self.connection.let_go_answer()
        if self.bytes_held:
            self.count(-self.bytes_held)

    def note_done(self, _: object) -> None:
        """Calls `end`: a callback for gRPC."""
        self.end()


def metadata_text(context: Context, key: str) -> str:
    """The first text with this key in a call's metadata; empty without one."""
    for name, value in context.invocation_metadata() or ():
        if name == key and isinstance(value, str):
            return value
    return ""


class Connection:
    """The counts of one connection."""

    __slots__ = (
        "__weakref__",
        "_frames_bytes",
        "_per_window_byte",
        "answer_bytes",
        "answers",
        "begun_calls",
        "calls",
        "idle_seconds",
        "is_closed",
        "messages",
        "metadata_bytes",
        "peer",
        "taken_bytes",
        "unread_answers",
        "unread_seconds",
    )

    def __init__(self, peer: str, answers: AnswerBudget, *, is_encrypted: bool = False) -> None:
        self.peer = peer
        """The peer as gRPC names it, like `ipv4:127.0.0.1:50522`."""
        self.answers = answers
        self.calls = 0
        """Open calls."""
        self.begun_calls = 0
        """Open calls that wait for their message."""
        self.idle_seconds = 0.0
        """The time at which the last call ended (monotonic)."""
        self.is_closed = False
        """Whether its counts were dropped: it was closed, and no call of it is open."""
        self.taken_bytes = 0
        """Received bytes that belong to calls; an upper bound."""
        self.messages = 0
        self.metadata_bytes = 0
        """Upper bound of the bytes of a call's metadata, from the last sample."""
        self.answer_bytes = 0
        """Bytes of its answers, including those that are being built."""
        self.unread_answers = 0
        """Answers that the client's window has not taken yet."""
        self.unread_seconds = 0.0
        """The time since which answers are unread and the window took none (monotonic)."""
        self._frames_bytes = _ENCRYPTED_FRAMES_BYTES if is_encrypted else _FRAMES_BYTES
        self._per_window_byte = (
            _ENCRYPTED_ANSWER_BYTES_PER_WINDOW_BYTE
            if is_encrypted
            else _ANSWER_BYTES_PER_WINDOW_BYTE
        )

    def note_message(self, context: Context, size: int) -> None:
        """Notes that a call's message has arrived completely."""
        # Calls of one connection have much the same metadata. Checking each costs too much.
        if not self.messages % _METADATA_SAMPLE:
            metadata = context.invocation_metadata() or ()
            self.metadata_bytes = sum(len(name) + len(value) for name, value in metadata)
        self.messages += 1
        self.taken_bytes += size + self.metadata_bytes + self._frames_bytes

    def note_stream(self, context: Context) -> None:
        """Notes that a stream has begun, with its metadata. Its messages bring no more metadata."""
        self.note_message(context, 0)

    def note_streamed(self, size: int) -> None:
        """Notes that a stream's message has arrived completely."""
        self.taken_bytes += size + self._frames_bytes

    def end_call(self) -> None:
        """Notes that one of its calls has ended."""
        self.calls -= 1
        if not self.calls:
            self.idle_seconds = time.monotonic()

    def hold_answer(self, size: int) -> None:
        """Counts an answer that is being sent."""
        if not self.unread_answers:
            self.unread_seconds = time.monotonic()
        self.unread_answers += 1
        # The client sends window updates as it reads: 13 bytes for some KiB.
        self.taken_bytes += size // self._per_window_byte

    def let_go_answer(self) -> None:
        """Notes that the client's window has taken an answer, or its call has ended."""
        self.unread_answers -= 1
        self.unread_seconds = time.monotonic()


class Connections:
    """All connections that have made a call."""

    def __init__(self, answers: AnswerBudget, *, is_encrypted: bool = False) -> None:
        self.answers = answers
        self._is_encrypted = is_encrypted
        self.closed = dict.fromkeys(REASONS, 0)
        """The number of connections that the server has closed, by reason."""
        self._closing = threading.Lock()
        self._by_peer: dict[str, Connection] = {}

    def note_closed(self, reason: str, count: int = 1) -> None:
        """Counts connections that were closed. For any thread."""
        with self._closing:
            self.closed[reason] += count

    def open_call(self, context: Context) -> Connection:
        """Notes that a call has begun, until its `end_call`. Returns its connection."""
        peer = context.peer()
        connection = self._by_peer.get(peer)
        if connection is None:
            connection = self._by_peer[peer] = Connection(
                peer, self.answers, is_encrypted=self._is_encrypted
            )
        connection.calls += 1
        return connection

    def find(self, peer: str) -> Connection | None:
        """The counts of a peer, if it has made a call. For any thread."""
        return self._by_peer.get(peer)

    def all(self) -> list[Connection]:
        """A copy of the list of all connections. For any thread."""
        return list(self._by_peer.values())

    def forget(self, peer: str) -> None:
        """Drops the counts of a closed connection. For any thread."""
        connection = self._by_peer.get(peer)
        if connection is not None and not connection.calls and not connection.unread_answers:
            self._by_peer.pop(peer, None)
            connection.is_closed = True

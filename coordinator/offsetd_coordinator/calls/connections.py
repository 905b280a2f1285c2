"""What each connection holds of the server's memory, as counted by its calls.

The event loop's thread counts; the connection guard's thread reads the counts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from offsetd_coordinator.calls.answer_budget import AnswerBudget
    from offsetd_coordinator.calls.unary_calls import Context

UNREAD: Final = "unread"
UNENDED: Final = "unended"
SILENT: Final = "silent"
IDLE: Final = "idle"
REASONS: Final = {
    UNREAD: "its answers are not read",
    UNENDED: "what it sends is never ended",
    SILENT: "others came, and it never made a call",
    IDLE: "others came, and it has no call",
}
"""Why connections are closed, by the metric's label."""

# Bytes of frame headers, and of the window updates that the client sends for the answer.
_FRAMES_BYTES: Final = 128
_METADATA_SAMPLE: Final = 16
_ANSWER_BYTES_PER_WINDOW_BYTE: Final = 256


class Connection:
    """One peer's counts."""

    __slots__ = (
        "answer_bytes",
        "answers",
        "begun_calls",
        "calls",
        "idle_seconds",
        "messages",
        "metadata_bytes",
        "peer",
        "taken_bytes",
        "unread_answers",
        "unread_seconds",
    )

    def __init__(self, peer: str, answers: AnswerBudget) -> None:
        self.peer = peer
        """As gRPC names it, like `ipv4:127.0.0.1:50522`."""
        self.answers = answers
        self.calls = 0
        """That are open."""
        self.begun_calls = 0
        """Those of them whose message has not come yet."""
        self.idle_seconds = 0.0
        """When the last call ended (monotonic)."""
        self.taken_bytes = 0
        """Of what was received, what calls have taken; rather too much than too little."""
        self.messages = 0
        self.metadata_bytes = 0
        """What each call's metadata take at most, as the last look at some found."""
        self.answer_bytes = 0
        """What its answers take, those that are being built as well."""
        self.unread_answers = 0
        """Answers that the client's window has not taken yet."""
        self.unread_seconds = 0.0
        """Since when there are some, and none was taken (monotonic)."""

    def note_message(self, context: Context, size: int) -> None:
        """A call's message has come whole."""
        # Calls of one connection have much the same metadata. Checking each costs too much.
        if not self.messages % _METADATA_SAMPLE:
            metadata = context.invocation_metadata() or ()
            self.metadata_bytes = sum(len(name) + len(value) for name, value in metadata)
        self.messages += 1
        self.taken_bytes += size + self.metadata_bytes + _FRAMES_BYTES

    def note_stream(self, context: Context) -> None:
        """A stream has begun: its metadata have arrived; its messages bring no more metadata."""
        self.note_message(context, 0)

    def note_streamed(self, size: int) -> None:
        """A stream's message has come whole."""
        self.taken_bytes += size + _FRAMES_BYTES

    def end_call(self) -> None:
        """One of its calls has ended."""
        self.calls -= 1
        if not self.calls:
            self.idle_seconds = time.monotonic()

    def hold_answer(self, size: int) -> None:
        """Counts an answer that is being sent."""
        if not self.unread_answers:
            self.unread_seconds = time.monotonic()
        self.unread_answers += 1
        # The client sends window updates as it reads: 13 bytes for some KiB.
        self.taken_bytes += size // _ANSWER_BYTES_PER_WINDOW_BYTE

    def let_go_answer(self) -> None:
        """The client's window has taken an answer, or its call has ended."""
        self.unread_answers -= 1
        self.unread_seconds = time.monotonic()


class Connections:
    """All connections that have made a call."""

    def __init__(self, answers: AnswerBudget) -> None:
        self.answers = answers
        self.closed = dict.fromkeys(REASONS, 0)
        """How many the server has closed, by reason. The guard's thread counts."""
        self._by_peer: dict[str, Connection] = {}

    def open_call(self, context: Context) -> Connection:
        """Notes that a call has begun, until its `end_call`. Returns its connection."""
        peer = context.peer()
        connection = self._by_peer.get(peer)
        if connection is None:
            connection = self._by_peer[peer] = Connection(peer, self.answers)
        connection.calls += 1
        return connection

    def find(self, peer: str) -> Connection | None:
        """The counts of a peer, if it has made a call. For any thread."""
        return self._by_peer.get(peer)

    def all(self) -> list[Connection]:
        """A list of its own. For any thread."""
        return list(self._by_peer.values())

    def forget(self, peer: str) -> None:
        """Drops the counts of a closed connection. For any thread."""
        connection = self._by_peer.get(peer)
        if connection is not None and not connection.calls and not connection.unread_answers:
            self._by_peer.pop(peer, None)

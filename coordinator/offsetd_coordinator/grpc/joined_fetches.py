"""Unary fetches that arrive in one turn of the event loop are read together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_coordinator.calls import answer_reservations
from offsetd_coordinator.calls.call_life import refusal_of
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.grpc.joined_calls import Outcome
from offsetd_coordinator.runtime.runtime import LargeFetch
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.wire.fetch_encoder import FetchAnswer, GroupEncoder
from offsetd_coordinator.wire.group_selections import SelectionReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_coordinator.grpc.joined_calls import Call, JoinedCalls, Taken
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime.runtime import Runtime

# A larger fetch is left to the handler of one call, which lets others run in between.
_MESSAGE_BYTES_MAX: Final = 4096
_GROUPS_MAX: Final = 5
_OFFSETS_PER_GROUP_MAX: Final = 256
_ANSWER_BYTES_MAX: Final = 1 << 16


class JoinedFetches:
    """The calls of FetchOffsets, by turns. For the event loop's thread.

    A fetch changes nothing, so each call without a plain answer is left: also what is refused.
    """

    def __init__(self, node: Node, calls: JoinedCalls) -> None:
        self._node = node
        self._calls = calls
        self._reader = SelectionReader()
        self._encoder = GroupEncoder()

    def take(self, calls: Sequence[tuple[Call, bytes]]) -> list[Call]:
        """Reads, to answer once what was read is durable. Returns the calls it leaves."""
        try:
            runtime = self._node.serving()
        except CoordinatorError:
            return [call for call, _ in calls]
        outcomes, left = [], []
        for call, message in calls:
            outcome = self._outcome(runtime, call, message)
            if outcome is None:
                left.append(call)
            else:
                outcomes.append(outcome)
        self._calls.end_once_durable(runtime, outcomes)
        return left

    def _outcome(self, runtime: Runtime, call: Call, message: bytes) -> Outcome | None:
        if len(message) > _MESSAGE_BYTES_MAX:
            return None
        taken = self._calls.taken(call, message)
        if taken is None:
            return None
        outcome = None
        try:
            outcome = self._read(runtime, taken)
        except CoordinatorError:
            pass  # The handler of one call refuses it.
        except Exception as error:  # noqa: BLE001  The other calls have to be answered.
            refusal_of(error, "FetchOffsets")
        if outcome is None:
            self._calls.leave(taken)
        return outcome

    def _read(self, runtime: Runtime, taken: Taken) -> Outcome | None:
        """The answer, or None if the call is not plain. Raises CoordinatorError."""
        selections = self._reader.read(taken.message)
        if selections is None or len(selections) > _GROUPS_MAX:
            return None
        access = taken.access
        if access is not None and not all(
            access.allows(Operation.DESCRIBE, ResourceType.GROUP, each.group_id.decode())
            for each in selections
        ):
            return None
        answer = FetchAnswer(self._encoder, bytes_max=_ANSWER_BYTES_MAX)
        tickets = set()
        for selection in selections:
            read = runtime.fetch_into(answer, selection, offsets_max=_OFFSETS_PER_GROUP_MAX)
            if isinstance(read, LargeFetch):
                return None
            ticket, refusal = read
            if refusal is not None:
                return None
            tickets.add(ticket)
        response = answer.encoded()
        room = answer_reservations.built(taken.life.connection, len(response))
        return Outcome(taken, response, tickets, room)

"""Planted bugs in what the transport `wire` holds of messages that are not whole."""

from __future__ import annotations

from mutants.planted import Mutant

_ROOM = "offsetd_wire.message_room:MessageRoom"
_UNFINISHED = "tests/transport/test_unfinished_messages.py"

WIRE_MUTANTS = (
    Mutant(
        name="messages that are not whole have room without a bound",
        where=f"{_ROOM}._has_room",
        replace="return False",
        by="return True",
        caught_by=_UNFINISHED,
    ),
    Mutant(
        name="messages that do not come keep their room",
        where=f"{_ROOM}._close_slow",
        replace="if size < _RATE_BYTES",
        by="if size < 0",
        caught_by=_UNFINISHED,
    ),
    Mutant(
        name="the room of messages that are whole is not given back",
        where="offsetd_wire.connection:Connection._handle",
        replace="self._room.end(self, number)",
        by="pass",
        caught_by=_UNFINISHED,
    ),
    Mutant(
        name="what waits does not widen its connection's window",
        where=f"{_ROOM}.set_window",
        replace="connection.wire.widen(size)",
        by="",
        caught_by=_UNFINISHED,
    ),
    Mutant(
        name="messages that are not whole do not count beside requests",
        where="offsetd_coordinator.calls.admission:Admission._bytes_held",
        replace="+ self.unended_bytes",
        by="",
        caught_by="tests/unit/coordinator/calls/test_admission.py",
    ),
)

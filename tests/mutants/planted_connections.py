"""Planted bugs in what bounds the memory that connections hold, and who may stay connected."""

from __future__ import annotations

from mutants.planted import Mutant

_GUARD_TESTS = "tests/unit/coordinator/network/test_connection_guard.py"
_ANSWER_TESTS = "tests/unit/coordinator/calls/test_answer_reservations.py"
_ATTACKS = "tests/fault/test_attacks.py"

CONNECTION_MUTANTS = (
    Mutant(
        name="a stream's messages count its metadata again",
        where="offsetd_coordinator.calls.connections:Connection.note_streamed",
        replace="self.taken_bytes += size + self._frames_bytes",
        by="self.taken_bytes += size + self.metadata_bytes + self._frames_bytes",
        caught_by="tests/unit/coordinator/network/test_connection_guard.py",
    ),
    Mutant(
        name="fetches do not count while they are built",
        where="offsetd_coordinator.services.offset_calls:OffsetService.fetch_offsets",
        replace="await answer_reservations.reserve(answer_reservations.BYTES_PER_OFFSET * count)",
        by="",
        caught_by=_ANSWER_TESTS,
    ),
    Mutant(
        name="an answer does not count any more once it is built",
        where="offsetd_coordinator.calls.connections:Answer.build",
        replace="self.count(more)",
        by="self.count(-self.bytes_held)",
        caught_by=_ANSWER_TESTS,
    ),
    Mutant(
        name="who holds most is next when there is room",
        where="offsetd_coordinator.calls.connections:AnswerBudget.give_back",
        replace="key=lambda each: each[0].connection.answer_bytes)",
        by="key=lambda each: -each[0].connection.answer_bytes)",
        caught_by=_ANSWER_TESTS,
    ),
    Mutant(
        name="answers that nobody reads leave no room for requests",
        where="offsetd_coordinator.calls.admission:Admission._bytes_held",
        replace="min(self.answers.bytes_held, self.answers.bytes_max)",
        by="self.answers.bytes_held",
        caught_by=_ANSWER_TESTS,
    ),
    Mutant(
        name="who reads nothing stays although others wait for room",
        where="offsetd_coordinator.network.connection_guard:ConnectionGuard._unread_too_long",
        replace="is_wanted = excess > 0 or budget.waiting > 0",
        by="is_wanted = excess > 0",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="who reads nothing stays for ever",
        where="offsetd_coordinator.network.connection_guard:ConnectionGuard._unread_too_long",
        replace="if gives_way or silence_seconds >= self._limits.unread_ms_max / 1000:",
        by="if gives_way:",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="many connections that have begun a little each are not closed",
        where="offsetd_coordinator.network.connection_guard:",
        replace="BEGUN_BYTES_MIN: Final = 64 << 10",
        by="BEGUN_BYTES_MIN: Final = 512 << 10",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="who has an open call gives way to new connections",
        where="offsetd_coordinator.network.connection_guard:_is_used",
        replace="return bool(connection.calls or connection.unread_answers)",
        by="return bool(connection.unread_answers)",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="new connections are kept out by silent ones",
        where="offsetd_coordinator.network.connection_guard:ConnectionGuard._too_many",
        replace="if excess <= 0:\n    return []",
        by="if excess <= 1000:\n    return []",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="gRPC is told only once that a connection has ended",
        where="offsetd_coordinator.network.connection_guard:ConnectionGuard._open_sockets",
        replace="    self._sockets.close(each)\nelse:",
        by="    pass\nelse:",
        caught_by=_ATTACKS,
    ),
    Mutant(
        name="a descriptor that is used anew is closed for what was there before",
        where="offsetd_coordinator.network.sockets:AcceptedSockets.close",
        replace="if self._number(duplicate.fileno()) != known.number:",
        by="if self._number(duplicate.fileno()) == 0:",
        caught_by="tests/unit/coordinator/network/test_sockets.py",
    ),
    Mutant(
        name="a call waits for its message for ever",
        where="offsetd_coordinator.calls.admission:IncompleteCalls._look",
        replace="if since_seconds > oldest_seconds:",
        by="if since_seconds > 0:",
        caught_by="tests/unit/coordinator/calls/test_incomplete_calls.py",
    ),
    Mutant(
        name="calls without a message do not count",
        where="offsetd_coordinator.network.connection_guard:_Known.held_bytes",
        replace="return self.begun_bytes + _BEGUN_CALL_BYTES * self.begun_calls",
        by="return self.begun_bytes",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="connections behind many open files are not seen",
        where="offsetd_coordinator.network.sockets:AcceptedSockets.look",
        replace="elif ctypes.get_errno() != errno.EBADF:",
        by="elif False:",
        caught_by="tests/unit/coordinator/network/test_sockets.py",
    ),
)

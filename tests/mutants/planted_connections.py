"""Planted bugs in what bounds the memory that connections hold, and who may stay connected."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_GUARD = f"{_COORDINATOR}/network/connection_guard.py"
_GUARD_TESTS = "tests/unit/coordinator/test_connection_guard.py"
_ANSWERS = f"{_COORDINATOR}/calls/answer_budget.py"
_ANSWER_TESTS = "tests/unit/coordinator/test_answers.py"
_ATTACKS = "tests/fault/test_attacks.py"

CONNECTION_MUTANTS = (
    Mutant(
        name="a stream's messages count its metadata again",
        file=f"{_COORDINATOR}/calls/connections.py",
        replace="        self.taken_bytes += size + _FRAMES_BYTES\n",
        by="        self.taken_bytes += size + self.metadata_bytes + _FRAMES_BYTES\n",
        caught_by="tests/unit/coordinator/test_connection_guard.py",
    ),
    Mutant(
        name="fetches do not count while they are built",
        file=f"{_COORDINATOR}/services/offset_calls.py",
        replace="                    await answer_budget.reserve("
        "answer_budget.BYTES_PER_OFFSET * count)\n",
        by="",
        caught_by=_ANSWER_TESTS,
    ),
    Mutant(
        name="an answer does not count any more once it is built",
        file=_ANSWERS,
        replace="        self.count(more)\n",
        by="        self.count(-self.bytes_held)\n",
        caught_by=_ANSWER_TESTS,
    ),
    Mutant(
        name="who holds most is next when there is room",
        file=_ANSWERS,
        replace="key=lambda each: each[0].connection.answer_bytes)",
        by="key=lambda each: -each[0].connection.answer_bytes)",
        caught_by=_ANSWER_TESTS,
    ),
    Mutant(
        name="answers that nobody reads leave no room for requests",
        file=f"{_COORDINATOR}/calls/admission.py",
        replace="min(self.answers.bytes_held, self.answers.bytes_max)",
        by="self.answers.bytes_held",
        caught_by=_ANSWER_TESTS,
    ),
    Mutant(
        name="who reads nothing stays although others wait for room",
        file=_GUARD,
        replace="            is_wanted = excess > 0 or budget.waiting > 0\n",
        by="            is_wanted = excess > 0\n",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="who reads nothing stays for ever",
        file=_GUARD,
        replace="if gives_way or silence_seconds >= self._limits.unread_ms_max / 1000:",
        by="if gives_way:",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="many connections that have begun a little each are not closed",
        file=_GUARD,
        replace="BEGUN_BYTES_MIN: Final = 64 << 10\n",
        by="BEGUN_BYTES_MIN: Final = 512 << 10\n",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="who has an open call gives way to new connections",
        file=_GUARD,
        replace="    return bool(connection.calls or connection.unread_answers)\n",
        by="    return bool(connection.unread_answers)\n",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="new connections are kept out by silent ones",
        file=_GUARD,
        replace="        if excess <= 0:\n            return []\n",
        by="        if excess <= 1000:\n            return []\n",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="gRPC is told only once that a connection has ended",
        file=_GUARD,
        replace="                self._sockets.close(each)\n            else:\n",
        by="                pass\n            else:\n",
        caught_by=_ATTACKS,
    ),
    Mutant(
        name="a descriptor that is used anew is closed for what was there before",
        file=f"{_COORDINATOR}/network/sockets.py",
        replace="            if self._number(duplicate.fileno()) != known.number:\n",
        by="            if self._number(duplicate.fileno()) == 0:\n",
        caught_by="tests/unit/coordinator/test_sockets.py",
    ),
    Mutant(
        name="a call waits for its message for ever",
        file=f"{_COORDINATOR}/calls/begun_calls.py",
        replace="            if since_seconds > oldest_seconds:\n",
        by="            if since_seconds > 0:\n",
        caught_by="tests/unit/coordinator/test_begun_calls.py",
    ),
    Mutant(
        name="calls without a message do not count",
        file=_GUARD,
        replace="        return self.begun_bytes + _BEGUN_CALL_BYTES * self.begun_calls\n",
        by="        return self.begun_bytes\n",
        caught_by=_GUARD_TESTS,
    ),
    Mutant(
        name="connections behind many open files are not seen",
        file=f"{_COORDINATOR}/network/sockets.py",
        replace="            elif ctypes.get_errno() != errno.EBADF:\n",
        by="            elif False:\n",
        caught_by="tests/unit/coordinator/test_sockets.py",
    ),
)

"""Planted bugs of when, and by whom, is flushed."""

from __future__ import annotations

from mutants.planted import Mutant

_FLUSHES = "tests/unit/coordinator/runtime/test_flusher.py"
_PACES = "tests/unit/coordinator/runtime/test_flush_pace.py"

FLUSH_MUTANTS = (
    Mutant(
        name="a flush waits though all have come",
        where="offsetd_coordinator.runtime.flusher:FlushPace.wait",
        replace="while now < self._earliest and not self.has_all:",
        by="while now < self._earliest:",
        caught_by=f"{_PACES}::test_as_many_are_waited_for_as_were_answered_and_came_meanwhile",
    ),
    Mutant(
        name="who came during a flush is not expected",
        where="offsetd_coordinator.runtime.flusher:FlushPace.note_ended",
        replace="max(covered + came, self._commits_expected",
        by="max(covered, self._commits_expected",
        caught_by=f"{_PACES}::test_as_many_are_waited_for_as_were_answered_and_came_meanwhile",
    ),
    Mutant(
        name="who comes no more is expected for ever",
        where="offsetd_coordinator.runtime.flusher:FlushPace.note_ended",
        replace="self._commits_expected * 15 // 16)",
        by="self._commits_expected)",
        caught_by=f"{_PACES}::test_who_comes_no_more_is_expected_for_a_while",
    ),
    Mutant(
        name="the loop's thread goes on with flushes that take long",
        where="offsetd_coordinator.runtime.flusher:FlushPace.note_ended",
        replace="or now - self._begun > _SHORT_SECONDS:",
        by=":",
        caught_by=f"{_PACES}::test_any_other_flush_is_the_threads_and_so_are_the_next",
    ),
    Mutant(
        name="the flush thread never looks after what has gathered",
        where="offsetd_coordinator.runtime.flusher:FlushPace.is_alone",
        replace="or past % (_FLUSHES_HERE_MAX + 1) == _FLUSHES_HERE_MAX:",
        by=":",
        caught_by=f"{_PACES}::test_flushes_of_one_commit_need_no_thread_but_for_one_now_and_then",
    ),
    Mutant(
        name="two threads flush at once",
        where="offsetd_coordinator.runtime.flusher:Flusher.kick",
        replace="self._may_flush_here() and self._turn.acquire(blocking=False)):",
        by="self._may_flush_here() and (self._turn.acquire(blocking=False) or True)):",
        caught_by=f"{_FLUSHES}::test_while_it_is_the_threads_turn_nobody_else_flushes",
    ),
    Mutant(
        name="a failed flush where it was appended is not told",
        where="offsetd_coordinator.runtime.flusher:Flusher.kick",
        replace="self._fail(error)\nreturn None",
        by="self._has_failed = True\nreturn None",
        caught_by=f"{_FLUSHES}::test_a_flush_that_fails_where_it_was_appended_is_the_last",
    ),
    Mutant(
        name="the last commit that is expected wakes nobody",
        where="offsetd_coordinator.runtime.flusher:Flusher.kick",
        replace="self._is_gathering = False\nself._wake_up.wake()",
        by="pass",
        caught_by=f"{_FLUSHES}::test_the_last_commit_that_is_expected_ends_the_wait_for_it",
    ),
    Mutant(
        name="a wait of a moment for more commits never ends",
        where="offsetd_coordinator.runtime.flusher:WakeUp.sleep",
        replace="timeout=-1 if seconds is None else",
        by="timeout=-1 if seconds is None or seconds < 1e-6 else",
        caught_by="tests/unit/coordinator/runtime/test_wake_up.py",
    ),
    Mutant(
        name="a caller who is alone is not told what was flushed at once",
        where="offsetd_coordinator.runtime.store_commit_log:StoreCommitLog._kick",
        replace="if durable := self._flusher.kick():",
        by="if durable := self._flusher.kick() and 0:",
        caught_by=(
            "tests/unit/coordinator/runtime/test_runtime.py"
            "::test_a_commit_that_is_flushed_at_once_is_answered"
        ),
    ),
    Mutant(
        name="a late report of the flush thread takes back what is durable",
        where="offsetd_coordinator.runtime.store_commit_log:StoreCommitLog._note_durable",
        replace="if self.failed is not None or ticket <= self._durable:",
        by="if self.failed is not None:",
        caught_by=(
            "tests/unit/coordinator/runtime/test_runtime.py"
            "::test_a_report_of_the_flush_thread_that_comes_late_takes_nothing_back"
        ),
    ),
    Mutant(
        name="who was alone is so however long ago that was",
        where="offsetd_coordinator.runtime.flusher:FlushPace.is_alone",
        replace="return self._now() - self._begun <= _PAUSE_SECONDS_MAX",
        by="return True",
        caught_by=_PACES,
    ),
)

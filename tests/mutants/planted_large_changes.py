"""Planted bugs of what changes large groups in turns."""

from __future__ import annotations

from mutants.planted import Mutant

_TESTS = "tests/unit/coordinator/large_groups/test_large_changes.py"


LARGE_CHANGE_MUTANTS = (
    Mutant(
        name="the lines of a large file are read without a pause",
        where="offsetd_coordinator.cooperative_scheduling:Turns.spend",
        replace="if self._items >= self.items_max:",
        by="if self._items < 0:",
        caught_by="tests/unit/coordinator/test_cooperative_scheduling.py",
    ),
    Mutant(
        name="a call of cheap items rests after each turn",
        where="offsetd_coordinator.cooperative_scheduling:Turns._end_turn",
        replace="< self.work_seconds_max",
        by="< 0",
        caught_by="tests/unit/coordinator/test_cooperative_scheduling.py",
    ),
    Mutant(
        name="between two turns there is one pass of the event loop",
        where="offsetd_coordinator.cooperative_scheduling:_Row._pause",
        replace="self._loop.call_later(REST_SECONDS, self._begin_turn)",
        by="self._loop.call_soon(self._begin_turn)",
        caught_by="tests/unit/coordinator/test_cooperative_scheduling.py",
    ),
    Mutant(
        name="long calls that arrive together begin together",
        where="offsetd_coordinator.cooperative_scheduling:first_turn",
        replace="await _row().enter()",
        by="pass",
        caught_by="tests/unit/coordinator/test_cooperative_scheduling.py",
    ),
    Mutant(
        name="long calls take their turns at the same time",
        where="offsetd_coordinator.cooperative_scheduling:_Row.wait",
        replace="if not self._is_moving:",
        by="if True:",
        caught_by="tests/unit/coordinator/test_cooperative_scheduling.py",
    ),
    Mutant(
        name="a slice of a large change grows the table",
        where="offsetd_coordinator.large_groups.large_changes:_Change._make_room",
        replace="if larger is not None:",
        by="if False:",
        caught_by="tests/unit/coordinator/large_groups/test_large_change_room.py",
    ),
    Mutant(
        name="what a large change reads is not counted",
        where="offsetd_coordinator.large_groups.large_changes:LargeChanges._in_turn",
        replace="async with self._one_at_a_time, room(change.offset_count):",
        by="async with self._one_at_a_time:",
        caught_by=_TESTS,
    ),
    Mutant(
        name="many groups are listed without a pause",
        where="offsetd_coordinator.services.group_calls:_least",
        replace="await turns.spend(len(part) + ITEMS_PER_PART)",
        by="pass",
        caught_by="tests/unit/coordinator/services/test_group_calls.py",
    ),
    Mutant(
        name="the slices of a large change are written without a pause",
        where="offsetd_coordinator.large_groups.large_changes:_Change._rest",
        replace="await next_turn()",
        by="pass",
        caught_by=_TESTS,
    ),
    Mutant(
        name="readers see a part of a large change",
        where="offsetd_coordinator.large_groups.large_changes:_Change.run",
        replace="hold.is_writing = self.is_writing = True",
        by="self.is_writing = True",
        caught_by=_TESTS,
    ),
    Mutant(
        name="others commit to a group while a large change of it goes on",
        where="offsetd_coordinator.shard.shard:Shard.decide",
        replace="self.holds.check_writer(request.group_id)",
        by="pass",
        caught_by=_TESTS,
    ),
    Mutant(
        name="a large change of which a crash left a part is answered as if it were done",
        where="offsetd_coordinator.changes.large_decisions:Puts.of_slices",
        replace=(
            "part._replace(columns=part.columns[first : first + SLICE_ROWS], request_id_size=0)"
        ),
        by="part._replace(columns=part.columns[first : first + SLICE_ROWS])",
        caught_by=_TESTS,
    ),
    Mutant(
        name="a deletion of which a crash left a part is answered as if it were done",
        where="offsetd_coordinator.state.tombstone_batches:encode_tombstones",
        replace=(
            "headers = last_headers if is_end and first + count == ends.size else first_headers"
        ),
        by="headers = last_headers if first + count == ends.size else first_headers",
        caught_by=_TESTS,
    ),
    Mutant(
        name="a large change goes on without its caller before anything is written",
        where="offsetd_coordinator.large_groups.large_changes:LargeChanges.submit",
        replace="task.cancel()",
        by="pass",
        caught_by=_TESTS,
    ),
    Mutant(
        name="what fits one batch may be left in part",
        where="offsetd_coordinator.changes.large_decisions:Tombstones.of",
        replace="rows_at_once = max(keys[1].size, 1) if is_one_batch else SLICE_ROWS",
        by="rows_at_once = SLICE_ROWS",
        caught_by=_TESTS,
    ),
)

"""Planted bugs of what changes large groups in turns."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_CHANGES = f"{_COORDINATOR}/large_groups/large_changes.py"
_TESTS = "tests/unit/coordinator/test_large_changes.py"


LARGE_CHANGE_MUTANTS = (
    Mutant(
        name="the lines of a large file are read without a pause",
        file=f"{_COORDINATOR}/counted_turns.py",
        replace="        if self._items >= ITEMS_PER_TURN:\n",
        by="        if self._items < 0:\n",
        caught_by="tests/unit/coordinator/test_turns.py",
    ),
    Mutant(
        name="between two turns there is one pass of the event loop",
        file=f"{_COORDINATOR}/cooperative_yield.py",
        replace="    await asyncio.sleep(REST_SECONDS)\n",
        by="    await asyncio.sleep(0)\n",
        caught_by="tests/unit/coordinator/test_turns.py",
    ),
    Mutant(
        name="what a large change reads is not counted",
        file=_CHANGES,
        replace="        async with self._one_at_a_time, room(change.offset_count):\n",
        by="        async with self._one_at_a_time:\n",
        caught_by=_TESTS,
    ),
    Mutant(
        name="many groups are listed without a pause",
        file=f"{_COORDINATOR}/services/group_calls.py",
        replace="        await turns.spend(len(part) + _ITEMS_PER_PART)\n",
        by="        pass\n",
        caught_by="tests/unit/coordinator/test_service_groups.py",
    ),
    Mutant(
        name="the slices of a large change are written without a pause",
        file=_CHANGES,
        replace="        await next_turn()\n",
        by="        pass\n",
        caught_by=_TESTS,
    ),
    Mutant(
        name="readers see a part of a large change",
        file=_CHANGES,
        replace="            hold.is_writing = self.is_writing = True\n",
        by="            self.is_writing = True\n",
        caught_by=_TESTS,
    ),
    Mutant(
        name="others commit to a group while a large change of it goes on",
        file=f"{_COORDINATOR}/shard/shard.py",
        replace="                self.holds.check_writer(request.group_id)\n",
        by="                pass\n",
        caught_by=_TESTS,
    ),
    Mutant(
        name="a large change of which a crash left a part is answered as if it were done",
        file=f"{_COORDINATOR}/changes/large_decisions.py",
        replace="            part._replace(columns=part.columns[first : first + SLICE_ROWS],"
        " request_id_size=0)\n",
        by="            part._replace(columns=part.columns[first : first + SLICE_ROWS])\n",
        caught_by=_TESTS,
    ),
    Mutant(
        name="a deletion of which a crash left a part is answered as if it were done",
        file=f"{_COORDINATOR}/state/tombstone_batches.py",
        replace="        headers = last_headers if is_end and first + count == ends.size"
        " else first_headers\n",
        by="        headers = last_headers if first + count == ends.size else first_headers\n",
        caught_by=_TESTS,
    ),
    Mutant(
        name="a large change goes on without its caller before anything is written",
        file=_CHANGES,
        replace="                task.cancel()\n",
        by="                pass\n",
        caught_by=_TESTS,
    ),
    Mutant(
        name="what fits one batch may be left in part",
        file=f"{_COORDINATOR}/changes/large_decisions.py",
        replace="        rows_at_once = max(keys[1].size, 1) if is_one_batch else SLICE_ROWS\n",
        by="        rows_at_once = SLICE_ROWS\n",
        caught_by=_TESTS,
    ),
)

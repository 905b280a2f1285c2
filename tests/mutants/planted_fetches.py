"""Planted bugs of what a fetch is answered."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_ANSWER = f"{_COORDINATOR}/kernels/wire/fetch_fields.py"
_ANSWERS = "tests/unit/coordinator/test_fetch_answer.py"
_PARSER = "tests/unit/coordinator/test_fetch_parser.py"
_SERVICE = "tests/unit/coordinator/test_service_offsets.py"

_READING = f"{_COORDINATOR}/large_groups/group_reading.py"
_READINGS = "tests/unit/coordinator/test_group_reading.py"

FETCH_MUTANTS = (
    Mutant(
        name="what changed between the slices of a read is left out",
        file=_READING,
        replace="    if start == end:\n",
        by="    if start <= end:\n",
        caught_by=_READINGS,
    ),
    Mutant(
        name="a large group is read without a pause",
        file=_READING,
        replace="            await walk.rest()\n",
        by="            pass\n",
        caught_by=_READINGS,
    ),
    Mutant(
        name="a group that was committed out of order is answered so",
        file=_ANSWER,
        replace="    _sort(table, found, count)\n    return count\n",
        by="    return count\n",
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="a topic of which another is the beginning stands before that one",
        file=f"{_COORDINATOR}/kernels/table/names.py",
        replace="    return size < other_size\n",
        by="    return size > other_size\n",
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="of an offset that cannot be read another one's name is told",
        file=_ANSWER,
        replace="            return -1 - at\n",
        by="            return -1\n",
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="what members read is said to expire",
        file=_ANSWER,
        replace="    return flags.size > 0 and bool(flags[at] == 1)\n",
        by="    return False\n",
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="a partition may be named twice in a fetch",
        file=f"{_COORDINATOR}/kernels/wire/fetch_request.py",
        replace="rows < 0 or has_duplicates(message, partitions, row, rows, seed, seed_2, slots)",
        by="rows < 0",
        caught_by=_PARSER,
    ),
    Mutant(
        name="a fetch that waits finds the partitions of another one",
        file=f"{_COORDINATOR}/wire/group_selections.py",
        replace="self._partitions[first_row : first_row + rows].copy() if rows else None",
        by="self._partitions[first_row : first_row + rows] if rows else None",
        caught_by=_PARSER,
    ),
    Mutant(
        name="offsets that are not durable are answered",
        file=f"{_COORDINATOR}/services/offset_calls.py",
        replace="        await until_durable(runtime, ticket)\n        if answer.size",
        by="        if answer.size",
        caught_by=f"{_SERVICE}::test_nothing_leaves_before_it_is_durable",
    ),
    Mutant(
        name="nobody has a turn while many groups are fetched",
        file=f"{_COORDINATOR}/services/offset_calls.py",
        replace="                await turns.spend(ITEMS_PER_GROUP + (answer.size - size)"
        " // _BYTES_PER_ITEM)\n",
        by="                pass\n",
        caught_by=f"{_SERVICE}::test_others_have_their_turn_while_much_is_fetched",
    ),
)

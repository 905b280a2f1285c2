"""Planted bugs of what a fetch is answered."""

from __future__ import annotations

from mutants.planted import Mutant

_ANSWERS = "tests/unit/coordinator/wire/test_fetch_encoder.py"
_PARSER = "tests/unit/coordinator/messages/test_fetch_parser.py"
_SERVICE = "tests/unit/coordinator/services/test_offset_calls.py"

_READINGS = "tests/unit/coordinator/large_groups/test_group_reading.py"

FETCH_MUTANTS = (
    Mutant(
        name="a fetch asks a room above the runtime",
        where="offsetd_coordinator.runtime.runtime:Runtime._expiry_rule",
        replace="config = self.expiry_config",
        by=(
            "from offsetd_coordinator.calls.call_life import check_size\n"
            "check_size(0, 0)\n"
            "config = self.expiry_config"
        ),
        caught_by="tests/unit/coordinator/test_call_walks.py",
    ),
    Mutant(
        name="what changed between the slices of a read is left out",
        where="offsetd_coordinator.large_groups.group_reading:_settled",
        replace="if start == end:",
        by="if start <= end:",
        caught_by=_READINGS,
    ),
    Mutant(
        name="a large group is read without a pause",
        where="offsetd_coordinator.large_groups.group_reading:_read",
        replace="await walk.rest()",
        by="pass",
        caught_by=_READINGS,
    ),
    Mutant(
        name="a group that was committed out of order is answered so",
        where="offsetd_coordinator.kernels.wire.fetch_fields:find_sorted",
        replace="_sort(table, found, count)\nreturn count",
        by="return count",
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="a topic of which another is the beginning stands before that one",
        where="offsetd_coordinator.kernels.table.names:is_name_before",
        replace="return size < other_size",
        by="return size > other_size",
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="of an offset that cannot be read another one's name is told",
        where="offsetd_coordinator.kernels.wire.fetch_fields:put_group",
        replace="return -1 - at",
        by="return -1",
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="what members read is said to expire",
        where="offsetd_coordinator.kernels.wire.fetch_fields:_is_one",
        replace="return flags.size > 0 and bool(flags[at] == 1)",
        by="return False",
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="a partition may be named twice in a fetch",
        where="offsetd_coordinator.kernels.wire.fetch_request:read_fetch",
        replace="rows < 0 or has_duplicates(message, partitions, row, rows, seed, seed_2, slots)",
        by="rows < 0",
        caught_by=_PARSER,
    ),
    Mutant(
        name="a fetch that waits finds the partitions of another one",
        where="offsetd_coordinator.wire.group_selections:SelectionReader.read",
        replace="self._partitions[first_row : first_row + rows].copy() if rows else None",
        by="self._partitions[first_row : first_row + rows] if rows else None",
        caught_by=_PARSER,
    ),
    Mutant(
        name="offsets that are not durable are answered",
        where="offsetd_coordinator.services.offset_calls:OffsetService.fetch_offsets",
        replace="await until_all_durable(runtime.log, tickets)\nif answer.size",
        by="if answer.size",
        caught_by=f"{_SERVICE}::test_nothing_leaves_before_it_is_durable",
    ),
    Mutant(
        name="nobody has a turn while many groups are fetched",
        where="offsetd_coordinator.services.offset_calls:OffsetService.fetch_offsets",
        replace="await turns.spend(ITEMS_PER_GROUP + (answer.size - size) // _BYTES_PER_ITEM)",
        by="pass",
        caught_by=f"{_SERVICE}::test_others_have_their_turn_while_much_is_fetched",
    ),
)

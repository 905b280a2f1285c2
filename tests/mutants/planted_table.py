"""Planted bugs of the table of offsets: blocks, rows, and what few offsets have."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_BLOCKS = f"{_COORDINATOR}/kernels/table/blocks.py"
_ENTRIES = f"{_COORDINATOR}/kernels/table/entries.py"
_TABLE = "tests/unit/coordinator/test_offset_table.py"
_ANY_ORDER = f"{_TABLE}::test_partitions_that_lie_together_come_and_go_in_any_order"
_END_OFFSETS = f"{_TABLE}::test_a_reported_end_offset_stays_until_another_is_or_the_offset_goes"

TABLE_MUTANTS = (
    Mutant(
        name="a partition that comes in between overwrites the next one",
        file=_BLOCKS,
        replace="    for row in range(start + count, start + at, -1):\n",
        by="    for row in range(start + count, start + at + 1, -1):\n",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="the rows behind one that is removed stay where they are",
        file=_BLOCKS,
        replace="    for at in range(row, end - 1):\n",
        by="    for at in range(row, end - 2):\n",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="partitions of other blocks have the row of the same bit",
        file=_BLOCKS,
        replace=" == group_topic and block_base(table, block) == base:\n",
        by=" == group_topic:\n",
        caught_by=f"{_ANY_ORDER}[seeds1]",
    ),
    Mutant(
        name="a replay goes on in the block of the record before",
        file=f"{_COORDINATOR}/kernels/records/replay.py",
        replace="    if block < 0 or block_base(table, block) != base:\n",
        by="    if block < 0:\n",
        caught_by=(
            "tests/unit/coordinator/test_replayed_state.py"
            "::test_partitions_of_a_batch_may_be_far_apart_and_in_any_order"
        ),
    ),
    Mutant(
        name="the rows that a block leaves are lost",
        file=_BLOCKS,
        replace="    counters[ENTRY_UNUSED] += count\n",
        by="",
        caught_by=f"{_TABLE}::test_rows_that_no_block_has_are_used_again",
    ),
    Mutant(
        name="a block at the end moves for each partition",
        file=_BLOCKS,
        replace="    if start + count == counters[ENTRY_END]:\n",
        by="    if False:\n",
        caught_by=f"{_TABLE}::test_offsets_of_a_commit_take_a_row_each_and_nothing_else",
    ),
    Mutant(
        name="a block that is empty keeps its group alive",
        file=_BLOCKS,
        replace="    if first == 0:\n        counters[GROUP_COUNT] -= 1\n",
        by="",
        caught_by=f"{_TABLE}::test_a_table_holds_what_a_dict_holds_after_any_stores_and_removals",
    ),
    Mutant(
        name="metadata is lost where there was none before",
        file=_ENTRIES,
        replace="        value.metadata_size == 0\n        and value.expire",
        by="        value.expire",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="a leader epoch that is too large for its bits goes into the time",
        file=_ENTRIES,
        replace="        and -1 <= value.leader_epoch < _EPOCH_MASK\n",
        by="        and -1 <= value.leader_epoch <= _EPOCH_MASK\n",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="a commit forgets the end offset that was reported",
        file=_ENTRIES,
        replace="    if is_plain and extras[extra, REPORTED_END] == 0:\n",
        by="    if is_plain:\n",
        caught_by=_END_OFFSETS,
    ),
    Mutant(
        name="a row that is used again has the end offset from before",
        file=_ENTRIES,
        replace="    extras[extra, REPORTED_END] = 0\n",
        by="",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="what few offsets have is kept when they go",
        file=_ENTRIES,
        replace="        _free_extra(table, -1 - word)\n",
        by="        pass\n",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="end offsets for which there is no room are written all the same",
        file=f"{_COORDINATOR}/kernels/records/commit_batch.py",
        replace="            if not has_extra_room(table):\n                return row\n",
        by="            if not has_extra_room(table):\n                return count\n",
        caught_by=f"{_TABLE}::test_end_offsets_of_more_partitions_than_there_was_room_for",
    ),
    Mutant(
        name="of a large group the blocks behind a slice are not looked at",
        file=f"{_COORDINATOR}/kernels/table/expired_offsets.py",
        replace="    stop = block + found.size\n    count = 0\n",
        by="    stop = block + found.size\n    end = min(end, stop)\n    count = 0\n",
        caught_by="tests/unit/coordinator/test_expiry_sweep.py",
    ),
)

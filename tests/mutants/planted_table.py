"""Planted bugs of the table of offsets: blocks, rows, and what few offsets have."""

from __future__ import annotations

from mutants.planted import Mutant

_TABLE = "tests/unit/coordinator/state/test_offset_table.py"
_ANY_ORDER = f"{_TABLE}::test_partitions_that_lie_together_come_and_go_in_any_order"
_END_OFFSETS = f"{_TABLE}::test_a_reported_end_offset_stays_until_another_is_or_the_offset_goes"

TABLE_MUTANTS = (
    Mutant(
        name="a partition that comes in between overwrites the next one",
        where="offsetd_coordinator.kernels.table.blocks:find_or_add_row",
        replace="for row in range(start + count, start + at, -1):",
        by="for row in range(start + count, start + at + 1, -1):",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="the rows behind one that is removed stay where they are",
        where="offsetd_coordinator.kernels.table.blocks:remove_row",
        replace="for at in range(row, end - 1):",
        by="for at in range(row, end - 2):",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="partitions of other blocks have the row of the same bit",
        where="offsetd_coordinator.kernels.table.blocks:find_block",
        replace="== group_topic and block_base(table, block) == base:",
        by="== group_topic:",
        caught_by=f"{_ANY_ORDER}[seeds1]",
    ),
    Mutant(
        name="a replay goes on in the block of the record before",
        where="offsetd_coordinator.kernels.records.replay:_block_at",
        replace="if block < 0 or block_base(table, block) != base:",
        by="if block < 0:",
        caught_by=(
            "tests/unit/coordinator/state/test_replayed_state.py"
            "::test_partitions_of_a_batch_may_be_far_apart_and_in_any_order"
        ),
    ),
    Mutant(
        name="the rows that a block leaves are lost",
        where="offsetd_coordinator.kernels.table.blocks:_widen",
        replace="counters[ENTRY_UNUSED] += count",
        by="",
        caught_by=f"{_TABLE}::test_rows_that_no_block_has_are_used_again",
    ),
    Mutant(
        name="a block at the end moves for each partition",
        where="offsetd_coordinator.kernels.table.blocks:_widen",
        replace="if start + count == counters[ENTRY_END]:",
        by="if False:",
        caught_by=f"{_TABLE}::test_offsets_of_a_commit_take_a_row_each_and_nothing_else",
    ),
    Mutant(
        name="a block that is empty keeps its group alive",
        where="offsetd_coordinator.kernels.table.blocks:_remove_block",
        replace="if first == 0:\n    counters[GROUP_COUNT] -= 1",
        by="",
        caught_by=f"{_TABLE}::test_a_table_holds_what_a_dict_holds_after_any_stores_and_removals",
    ),
    Mutant(
        name="metadata is lost where there was none before",
        where="offsetd_coordinator.kernels.table.entries:store_row",
        replace="value.metadata_size == 0\nand value.expire_timestamp",
        by="value.expire_timestamp",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="a leader epoch that is too large for its bits goes into the time",
        where="offsetd_coordinator.kernels.table.entries:store_row",
        replace="and -1 <= value.leader_epoch < _EPOCH_MASK",
        by="and -1 <= value.leader_epoch <= _EPOCH_MASK",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="a commit forgets the end offset that was reported",
        where="offsetd_coordinator.kernels.table.entries:store_row",
        replace="extras[extra, REPORTED_END] == 0 and extras[extra, LAG_WINDOW] == 0:",
        by="extras[extra, LAG_WINDOW] == 0:",
        caught_by=_END_OFFSETS,
    ),
    Mutant(
        name="a row that is used again has the end offset from before",
        where="offsetd_coordinator.kernels.table.entries:_extra_of",
        replace="extras[extra, REPORTED_END] = 0",
        by="",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="what few offsets have is kept when they go",
        where="offsetd_coordinator.kernels.table.entries:forget_row",
        replace="_free_extra(table, -1 - word)",
        by="pass",
        caught_by=_ANY_ORDER,
    ),
    Mutant(
        name="end offsets for which there is no room are written all the same",
        where="offsetd_coordinator.kernels.records.commit_batch:note_end_offsets",
        replace="if not (has_extra_room(table) and has_window_room(table)):\n    return row",
        by="if not (has_extra_room(table) and has_window_room(table)):\n    return count",
        caught_by=f"{_TABLE}::test_end_offsets_of_more_partitions_than_there_was_room_for",
    ),
    Mutant(
        name="of a large group the blocks behind a slice are not looked at",
        where="offsetd_coordinator.kernels.table.expired_offsets:list_from",
        replace="stop = block + found.size\ncount = 0",
        by="stop = block + found.size\nend = min(end, stop)\ncount = 0",
        caught_by="tests/unit/coordinator/expiry/test_expiry_sweep.py",
    ),
)

"""Tables of several shards in one array."""

from __future__ import annotations

import numpy as np
from numba import njit
from offsetd_coordinator.kernels import columns, table_directory
from offsetd_coordinator.kernels.table_directory import DIRECTORY_COLUMNS, directory_row
from offsetd_coordinator.offset_table import OffsetTable


def new_table(offsets: int) -> OffsetTable:
    table = OffsetTable(request_window_ms=1000, request_ids_max=10, hash_seeds=(1, 2, 3, 4))
    return fill(table, offsets)


def fill(table: OffsetTable, offsets: int) -> OffsetTable:
    for partition in range(offsets):
        table.store(
            b"group-%d" % partition,
            b"topic",
            partition,
            revision=partition,
            offset=100 + partition,
            leader_epoch=3,
            metadata=b"m" * (partition % 9),
            commit_timestamp_ms=5,
            expire_timestamp_ms=-1,
        )
    return table


def test_a_row_is_that_of_the_arrays_that_a_table_has_now() -> None:
    table = new_table(1)
    first = table.directory_row.tolist()
    assert first == directory_row(table.arrays).tolist()
    fill(table, 3000)
    assert table.directory_row.tolist() == directory_row(table.arrays).tolist()
    lengths = slice(DIRECTORY_COLUMNS // 2 + 1, DIRECTORY_COLUMNS // 2 + 9)
    assert all(
        now > before
        for now, before in zip(table.directory_row[lengths], first[lengths], strict=True)
    ), "all arrays that offsets go into have grown"
    assert table.directory_row.shape == (DIRECTORY_COLUMNS,)


def test_a_kernel_finds_each_table_of_a_directory() -> None:
    table_at = table_directory.table_at

    @njit(_nrt=False)  # type: ignore[untyped-decorator]
    def look(directory: columns.Int64s, row: int, seen: columns.Int64s) -> None:
        table = table_at(directory, row)
        for place, size in enumerate(
            (
                table.counters.size,
                table.slots.size,
                table.blocks.size,
                table.entries.size,
                table.extras.size,
                table.name_slots.size,
                table.names.size,
                table.name_bytes.size,
                table.metadata.size,
                table.request_slots.size,
                table.requests.size,
            )
        ):
            seen[place] = size
        seen[-4] = table.counters[columns.ENTRY_COUNT]
        seen[-3] = table.entries[table.entries.shape[0] - 1, columns.ENTRY_COLUMNS - 1]
        seen[-2] = table.name_bytes[0]
        table.entries[0, columns.OFFSET] += 1
        seen[-1] = table.entries[0, columns.OFFSET]

    tables = [new_table(offsets) for offsets in (1, 700, 40)]
    directory = np.array([each.directory_row for each in tables])
    for row, table in enumerate(tables):
        named = columns.Table(*table.arrays)
        seen = np.zeros(len(named) + 4, np.int64)
        look(directory, row, seen)
        expected = [each.size for each in named]
        expected += [table.size, named.entries[-1, -1], named.name_bytes[0]]
        expected += [named.entries[0, columns.OFFSET]]
        assert seen.tolist() == expected
        assert table.read_group(b"group-0")[0].offset == 101

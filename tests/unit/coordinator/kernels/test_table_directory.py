"""Tables of several shards in one array."""

from __future__ import annotations

import numpy as np
from numba import njit
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.table import table_directory
from offsetd_coordinator.kernels.table.table_directory import ROW_COLUMNS, directory_of, fill_row
from offsetd_coordinator.state.offset_table import OffsetTable


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


def row_of(table: OffsetTable) -> list[int]:
    row = np.zeros(ROW_COLUMNS, np.int64)
    fill_row(row, table.arrays)
    return row.tolist()


def test_a_row_is_that_of_the_arrays_that_a_table_has_now() -> None:
    table = new_table(1)
    row, first = table.directory_row, row_of(table)
    assert row.tolist() == first
    fill(table, 3000)
    assert row.tolist() == row_of(table)
    lengths = slice(ROW_COLUMNS // 2 + 1, ROW_COLUMNS // 2 + 9)
    assert all(now > before for now, before in zip(row[lengths], first[lengths], strict=True)), (
        "all arrays that offsets go into have grown"
    )
    assert table.directory_row is row


def test_a_kernel_finds_each_table_of_a_directory() -> None:
    table_at = table_directory.table_at

    @njit(_nrt=False)  # type: ignore[untyped-decorator]
    def look(directory: columns.Int64s, place: int, seen: columns.Int64s) -> None:
        table = table_at(directory, place)
        for column, size in enumerate(
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
                table.windows.size,
            )
        ):
            seen[column] = size
        seen[-4] = table.counters[columns.ENTRY_COUNT]
        seen[-3] = table.entries[table.entries.shape[0] - 1, columns.ENTRY_COLUMNS - 1]
        seen[-2] = table.name_bytes[0]
        table.entries[0, columns.OFFSET] += 1
        seen[-1] = table.entries[0, columns.OFFSET]

    tables = [new_table(offsets) for offsets in (1, 700, 40)]
    places = {3: tables[0], 0: tables[1], 5: tables[2]}
    directory = directory_of({place: each.directory_row for place, each in places.items()}, 6)
    fill(tables[2], 2000)
    for place, table in places.items():
        named = columns.Table(*table.arrays)
        seen = np.zeros(len(named) + 4, np.int64)
        look(directory, place, seen)
        expected = [each.size for each in named]
        expected += [table.size, named.entries[-1, -1], named.name_bytes[0]]
        expected += [named.entries[0, columns.OFFSET]]
        assert seen.tolist() == expected
        assert table.read_group(b"group-0")[0].offset == 101

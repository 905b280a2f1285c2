"""offsetd_pipeline.writing.written_groups: the rows of tasks by group, whoever had them."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from offsetd_pipeline.writing import written_groups
from offsetd_pipeline.writing.columns import REQUIRED
from offsetd_pipeline.writing.written_groups import GroupedRows
from written_rows import columns_of, packed, tables

COLUMNS = columns_of("metadata")


def test_a_groups_rows_of_several_tasks_are_together_and_in_order() -> None:
    tasks = [
        packed(COLUMNS, {"group": "b", "partition": 10, "offset": 1}, {"group": "a", "offset": 2}),
        packed(
            COLUMNS,
            {"group": "b", "partition": 9, "offset": 3, "metadata": "m"},
            {"group": "b", "topic": "s", "partition": 11, "offset": 4},
        ),
    ]
    groups = GroupedRows(tables(tasks))
    assert (len(groups), groups.row_count) == (2, 4)
    assert [(each.group_id, list(each.column("offset"))) for each in groups] == [
        ("a", [2]),
        ("b", [4, 3, 1]),
    ]
    last = list(groups)[-1]
    assert list(last.column("metadata")) == [None, "m", None]
    assert list(last.column("leader_epoch")) == [None] * 3
    assert [row["partition"] for row in last.rows()] == [11, 9, 10]


def test_rows_of_one_partition_are_found_in_whichever_tasks() -> None:
    twice = {"group": "g", "partition": 7, "offset": 1}
    tasks = [
        packed(COLUMNS, twice, {"group": "g", "partition": 6, "offset": 1}),
        packed(COLUMNS, {**twice, "offset": 2}, {**twice, "group": "h"}, {**twice, "topic": "u"}),
    ]
    found = {each.group_id: each.repeated for each in GroupedRows(tables(tasks))}
    assert found == {"g": [1, 2], "h": []}


def test_of_rows_of_one_partition_the_latest_counts_where_it_is_said_what_that_is() -> None:
    columns = columns_of("log_offset", latest_by="log_offset")
    row = {"group": "g", "partition": 7}
    tasks = [
        packed(
            columns,
            {**row, "offset": 1, "log_offset": 10},
            {**row, "offset": 2, "log_offset": 30},
            {**row, "offset": 9},  # Of no rank: before all others.
            {"group": "h", "offset": 4},
        ),
        packed(
            columns,
            {**row, "offset": 3, "log_offset": 20},
            {**row, "topic": "u", "offset": 5, "log_offset": 4},
            {**row, "topic": "u", "offset": 6, "log_offset": 5},
            {**row, "topic": "u", "offset": 7, "log_offset": 5},
        ),
    ]
    grouped = GroupedRows(tables(tasks))
    found = {each.group_id: (list(each.column("offset")), each.repeated) for each in grouped}
    assert found == {"g": ([2, 6, 7], [1, 2]), "h": ([4], [])}
    assert (grouped.row_count, grouped.superseded_count) == (4, 4)
    assert all(row.keys() == {*REQUIRED} for group in grouped for row in group.rows())


@pytest.mark.parametrize("rows_at_once", [1, 3, 40, 10_000])
def test_random_rows_are_each_in_their_group_once(
    rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_groups, "_ROWS_AT_ONCE", rows_at_once)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    tasks: list[list[dict[str, Any]]] = [[] for _ in range(4)]
    expected: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for number in range(500):
        group, topic = f"g{chance.randrange(40)}", f"t{chance.randrange(3)}"
        partition = chance.randrange(60)
        row = {"group": group, "topic": topic, "partition": partition, "offset": number}
        chance.choice(tasks).append(row)
        expected[group].append((topic, partition, number))
    groups = list(GroupedRows(tables([packed(COLUMNS, *rows) for rows in tasks])))
    assert [each.group_id for each in groups] == sorted(expected)
    for each in groups:
        keys = list(zip(each.column("topic"), each.column("partition"), strict=True))
        found = [(*key, offset) for key, offset in zip(keys, each.column("offset"), strict=True)]
        assert sorted(found) == sorted(expected[each.group_id])
        assert keys == sorted(keys)
        assert each.repeated == [at for at, key in enumerate(keys) if keys.count(key) > 1]

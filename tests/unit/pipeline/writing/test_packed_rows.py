"""offsetd_pipeline.writing.packed_rows: what tasks reject, and how the rest is packed."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from offsetd_pipeline.writing.columns import WriteMode
from offsetd_pipeline.writing.packed_rows import TaskRows, unpacked
from written_rows import columns_of, packed, rejected, tables

ALL = ("leader_epoch", "metadata", "expected_offset", "expected_revision", "end_offset")
COLUMNS = columns_of(*ALL, mode=WriteMode.COMPARE_AND_SET)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, None),
        ({"group": None}, "INVALID_GROUP_ID"),
        ({"group": ""}, "INVALID_GROUP_ID"),
        ({"group": "g" * 32_767}, None),
        ({"group": "ö" * 16_384}, "INVALID_GROUP_ID"),
        ({"topic": None}, "INVALID_TOPIC"),
        ({"topic": ""}, "INVALID_TOPIC"),
        ({"topic": "ö" * 249}, None),
        ({"topic": "ö" * 250}, "INVALID_TOPIC"),
        ({"topic": "𝄞" * 124}, None),
        ({"topic": "𝄞" * 125}, "INVALID_TOPIC"),
        ({"partition": None}, "INVALID_PARTITION"),
        ({"partition": -1}, "INVALID_PARTITION"),
        ({"offset": None}, "INVALID_OFFSET"),
        ({"offset": -1}, "INVALID_OFFSET"),
        ({"offset": (1 << 63) - 1}, None),
        ({"leader_epoch": -1}, "INVALID_LEADER_EPOCH"),
        ({"metadata": ""}, None),
        ({"metadata": "m" * 32_767}, None),
        ({"metadata": "m" * 32_768}, "INVALID_METADATA"),
        ({"expected_offset": -1}, "INVALID_PRECONDITION"),
        ({"expected_revision": -1}, "INVALID_PRECONDITION"),
        ({"expected_offset": 1, "expected_revision": 1}, "INVALID_PRECONDITION"),
        ({"expected_offset": 0}, None),
        ({"end_offset": -1}, "INVALID_OFFSET"),
    ],
)
def test_each_rule_of_a_row_is_kept_and_told(row: dict[str, Any], reason: str | None) -> None:
    beside = {"group": "beside", "offset": 1}
    message = packed(COLUMNS, beside, {"group": "g", "offset": 5, **row}, beside)
    good = [each["group"] for table in tables([message]) for each in table.to_pylist()]
    found = rejected(message)
    assert [each["reason"] for each in found] == ([] if reason is None else [reason])
    assert len(good) == 3 - len(found)
    for each in found:
        assert {name: each[name] for name in row} == row
        assert each["message"]


def test_numbers_that_do_not_fit_are_rejected_not_cut() -> None:
    task = TaskRows(columns_of())
    names = ["group", "topic", "partition", "offset"]
    task.add(pa.record_batch([["g"], ["t"], [1 << 31], [1]], names=names))
    [row] = rejected(task.packed())
    assert (row["partition"], row["reason"]) == (1 << 31, "INVALID_PARTITION")


def test_text_that_is_none_is_rejected_and_readable() -> None:
    offsets, content = pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"\xff\xfeab")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, content])
    task = TaskRows(columns_of())
    names = ["group", "topic", "partition", "offset"]
    task.add(pa.record_batch([texts, ["t", "t"], [1, 2], [1, 2]], names=names))
    message = task.packed()
    assert [each["group"] for each in tables([message])[0].to_pylist()] == ["ab"]
    [row] = rejected(message)
    assert (row["group"], row["message"]) == ("��", "group is not UTF-8")


def test_times_before_1970_are_rejected() -> None:
    columns = columns_of("commit_time", keep_commit_times=True)
    old, now = datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    rows = [{"group": "g", "offset": 1, "commit_time": each} for each in (old, now, None)]
    message = packed(columns, *rows)
    assert [each["commit_time"] for each in rejected(message)] == [old]
    assert [each["commit_time"] for each in tables([message])[0].to_pylist()] == [now, None]


def test_times_that_python_has_none_for_are_rejected_or_the_last_that_it_has() -> None:
    columns = columns_of("commit_time", keep_commit_times=True)
    rows = [{"group": "g", "offset": 1, "commit_time": each} for each in (-(1 << 60), 1 << 60)]
    message = packed(columns, *rows)
    assert message.rejected is not None
    [reason] = unpacked(message.rejected).column("reason").to_pylist()
    assert reason == "INVALID_COMMIT_TIME"
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
    assert [each["commit_time"] for each in tables([message])[0].to_pylist()] == [last]


def test_what_a_task_has_packed_survives_the_way_to_the_driver() -> None:
    rows = [{"group": f"g{each % 7}", "partition": each, "offset": each} for each in range(1000)]
    message = pickle.loads(pickle.dumps(packed(COLUMNS, *rows, batch_rows=10)))
    [table] = tables([message])
    assert [(each["group"], each["offset"]) for each in table.to_pylist()] == [
        (each["group"], each["offset"]) for each in rows
    ]
    assert len(table.column("group").chunk(0).dictionary) == 7
    assert packed(COLUMNS).rows is None

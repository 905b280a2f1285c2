"""offsetd_pipeline.writing.commit_requests: what is sent, and by which name it is known."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import CommittedOffset
from offsetd_pipeline.writing.columns import WriteMode
from offsetd_pipeline.writing.commit_requests import RequestMaker
from offsetd_pipeline.writing.written_groups import GroupedRows
from written_rows import columns_of, packed, tables

if TYPE_CHECKING:
    from offsetd_pipeline.writing.written_groups import GroupRows

ROWS = [{"group": "g", "partition": each, "offset": 10 + each} for each in range(6)]


def group_of(*rows: dict[str, Any], mode: WriteMode = WriteMode.OVERWRITE) -> GroupRows:
    named = sorted({name for row in rows for name in row} - {"group", "partition", "offset"})
    columns = columns_of(*named, mode=mode, keep_commit_times="commit_time" in named)
    [group] = GroupedRows(tables([packed(columns, *rows)]))
    return group


def request_id(*rows: dict[str, Any], name: str = "job", mode: str = "overwrite") -> str:
    return RequestMaker(name, WriteMode(mode)).commit(group_of(*rows)).request_id


def test_every_attempt_with_the_same_rows_has_one_request_id_whichever_tasks_had_them() -> None:
    first = request_id(*ROWS)
    assert 0 < len(first.encode()) <= 64
    columns = columns_of()
    for _ in range(5):
        mixed = random.sample(ROWS, len(ROWS))
        cut = random.randrange(1, len(ROWS))
        parts = [packed(columns, *mixed[:cut]), packed(columns, *mixed[cut:])]
        [group] = GroupedRows(tables(parts))
        assert RequestMaker("job", WriteMode.OVERWRITE).commit(group).request_id == first


@pytest.mark.parametrize(
    ("rows", "name", "mode"),
    [
        (ROWS, "another job", "overwrite"),
        (ROWS, "job", "monotonic"),
        (ROWS[1:], "job", "overwrite"),
        ([*ROWS[1:], {**ROWS[0], "offset": 11}], "job", "overwrite"),
        ([{**each, "metadata": "m"} for each in ROWS], "job", "overwrite"),
        ([{**each, "group": "h"} for each in ROWS], "job", "overwrite"),
    ],
)
def test_what_is_another_write_has_another_request_id(
    rows: list[dict[str, Any]], name: str, mode: str
) -> None:
    assert request_id(*rows, name=name, mode=mode) != request_id(*ROWS)


def test_all_that_a_row_says_is_in_the_request() -> None:
    row = {
        "group": "g",
        "partition": 3,
        "offset": 7,
        "leader_epoch": 2,
        "metadata": "m",
        "end_offset": 9,
    }
    [offset] = RequestMaker("job", WriteMode.OVERWRITE).commit(group_of(row)).offsets
    assert (offset.topic, offset.partition, offset.offset, offset.leader_epoch) == ("t", 3, 7, 2)
    assert (offset.metadata, offset.end_offset, offset.monotonic) == ("m", 9, False)
    bare = {**row, "leader_epoch": None, "metadata": None, "end_offset": None}
    [offset] = RequestMaker("job", WriteMode.MONOTONIC).commit(group_of(bare)).offsets
    assert not offset.HasField("leader_epoch")
    assert not offset.HasField("end_offset")
    assert offset.monotonic
    assert offset.WhichOneof("precondition") is None


STORED = CommittedOffset(
    offset=5,
    leader_epoch=None,
    metadata="",
    commit_time=datetime(2026, 1, 1, tzinfo=UTC),
    expire_time=None,
    revision=17,
    end_offset=None,
)


@pytest.mark.parametrize(
    ("mode", "expected", "precondition", "conflicts_with_stored", "conflicts_with_nothing"),
    [
        ("overwrite", {}, None, False, False),
        ("create", {}, "must_not_exist", True, False),
        ("monotonic", {"offset": 4}, None, True, False),
        ("monotonic", {"offset": 5}, None, False, False),
        ("compare_and_set", {"expected_offset": 5}, "expected_offset", False, True),
        ("compare_and_set", {"expected_offset": 0}, "expected_offset", True, True),
        ("compare_and_set", {"expected_offset": None}, "must_not_exist", True, False),
        ("compare_and_set", {"expected_revision": 17}, "expected_revision", False, True),
        ("compare_and_set", {"expected_revision": 16}, "expected_revision", True, True),
    ],
)
def test_each_mode_asks_for_what_it_says_and_knows_what_stands_in_its_way(
    mode: str,
    expected: dict[str, Any],
    precondition: str | None,
    *,
    conflicts_with_stored: bool,
    conflicts_with_nothing: bool,
) -> None:
    maker = RequestMaker("job", WriteMode(mode))
    group = group_of({"group": "g", "offset": 8, **expected}, mode=WriteMode(mode))
    [offset] = maker.commit(group).offsets
    assert offset.WhichOneof("precondition") == precondition
    assert offset.monotonic == (mode == "monotonic")
    if precondition is not None:
        [value] = expected.values() or [None]
        assert getattr(offset, precondition) == (True if value is None else value)
    [row] = group.rows()
    assert maker.conflicts(row, STORED) == conflicts_with_stored
    assert maker.conflicts(row, None) == conflicts_with_nothing


@pytest.mark.parametrize(
    ("mode", "more", "line"),
    [
        ("overwrite", {}, {}),
        ("create", {}, {"must_not_exist": True}),
        ("compare_and_set", {"expected_revision": 3}, {"expected_revision": 3}),
        (
            "compare_and_set",
            {"expected_revision": None},
            {"expected_revision": None, "must_not_exist": True},
        ),
    ],
)
def test_a_file_to_import_has_a_line_a_row_with_its_time(
    mode: str, more: dict[str, Any], line: dict[str, Any]
) -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    row = {"group": "g", "offset": 8, "commit_time": time, **more}
    maker = RequestMaker("job", WriteMode(mode))
    content, request_id = maker.file([group_of(row, mode=WriteMode(mode))])
    assert json.loads(content) == {
        "group": "g",
        "topic": "t",
        "partition": 0,
        "offset": 8,
        "commit_timestamp_ms": 1767323045678,
        **line,
    }
    assert request_id == maker.file([group_of(row, mode=WriteMode(mode))])[1]

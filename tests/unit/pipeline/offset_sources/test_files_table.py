"""Files in ranges, as Spark's tasks read them: every line once, and its number told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from offsetd_pipeline.offset_sources.files_table import OffsetFilesSource
from offsetd_pipeline.offset_sources.line_parser import PLACED_ARROW
from offsetd_pipeline.offset_sources.source_kind import SourceKind

if TYPE_CHECKING:
    from pathlib import Path

LINE = st.sampled_from(
    [
        "billing,orders,0,42",
        "g,größe,1,7\r",
        "bad",
        "",
        "  ",
        "g,t,x,1",
        '"a,b",t,3,5',
        '"g\r",t,1,1',
    ]
)


def rows_of(
    kind: SourceKind, *paths: Path, group: str = "", range_bytes: int = 1 << 20
) -> list[dict[str, Any]]:
    """As executors read them, without Spark."""
    options = {
        "kind": str(kind),
        "paths": json.dumps([str(each) for each in paths]),
        "file_group": group,
        "range_bytes": str(range_bytes),
    }
    source = OffsetFilesSource(options)
    reader = source.reader(source.schema())  # type: ignore[arg-type]
    found: list[dict[str, Any]] = []
    for work in reader.partitions():
        for batch in reader.read(work):
            assert batch.schema == PLACED_ARROW
            found += batch.to_pylist()
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(lines=st.lists(LINE, max_size=12), ends=st.booleans(), range_bytes=st.integers(1, 40))
def test_ranges_have_each_line_once_with_its_number(
    tmp_path: Path, lines: list[str], ends: bool, range_bytes: int
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_bytes("\n".join([*lines, *([""] if ends else [])]).encode())
    found = rows_of(SourceKind.KAFKA_CSV, path, range_bytes=range_bytes)
    assert found == rows_of(SourceKind.KAFKA_CSV, path)
    bad = [number for number, line in enumerate(lines, 1) if line in ("bad", "g,t,x,1")]
    assert [each["place"] for each in found if each["place"]] == [f"{path}:{n}" for n in bad]
    good = [each for each in found if each["problem"] is None]
    assert len(good) + len(bad) == sum(bool(line.strip()) for line in lines)


def test_a_byte_order_mark_is_passed_over_at_a_files_beginning_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfg,t,0,1\n\xef\xbb\xbfg,t,1,1\n")
    first, second = rows_of(SourceKind.KAFKA_CSV, path, range_bytes=4)
    assert (first["group"], second["group"]) == ("g", "\ufeffg")


GOOD = {
    "group": "g",
    "topic": "t",
    "partition": 2,
    "offset": 9,
    "leader_epoch": None,
    "metadata": None,
    "commit_time_ms": None,
    "problem_kind": None,
    "problem": None,
    "place": None,
}


@pytest.mark.parametrize(
    ("kind", "content", "group", "expected"),
    [
        (SourceKind.KAFKA_CSV, "g,t,2,9", "", GOOD),
        (SourceKind.KAFKA_CSV, "t,2,9", "g", GOOD),
        (SourceKind.RPK, "t 2 9", "g", GOOD),
        (SourceKind.KAFKA_UTILS, '{"groupid":"g","offsets":{"t":{"2":9}}}', "", GOOD),
        (SourceKind.ZOOKEEPER, "/consumers/g/offsets/t/2:9", "", GOOD),
        (
            SourceKind.JSONL,
            '{"group":"g","topic":"t","partition":2,"offset":9,"metadata":"m","revision":77,\
"leader_epoch":1,"commit_timestamp_ms":5}',
            "",
            GOOD | {"leader_epoch": 1, "metadata": "m", "commit_time_ms": 5},
        ),
    ],
)
def test_each_format_gives_its_offsets(
    tmp_path: Path, kind: SourceKind, content: str, group: str, expected: dict[str, Any]
) -> None:
    path = tmp_path / "file"
    path.write_text(content + "\n", encoding="utf-8")
    assert rows_of(kind, path, group=group) == [expected]


@pytest.mark.parametrize(
    ("kind", "content", "group", "of_group", "what"),
    [
        (SourceKind.RPK, "t 2 9", "", None, "--file-group does"),
        (SourceKind.KAFKA_CSV, "other,t,2,9", "g", "other", "is not the group that is named"),
        (SourceKind.KAFKA_CSV, "g,,2,9", "", "g", "topic's name is empty"),
        (SourceKind.ZOOKEEPER, "/consumers/g/offsets/t/1-0:9", "", "g", "bytes"),
        (SourceKind.ZOOKEEPER, "/consumers/g/t/1:9", "", None, "PATH/GROUP/offsets"),
        (SourceKind.KAFKA_UTILS, "{", "", None, "no JSON"),
        (
            SourceKind.JSONL,
            '{"group":"g","topic":"t","partition":0,"offset":1,"must_not_exist":true}',
            "",
            "g",
            "precondition",
        ),
    ],
)
def test_what_is_wrong_says_where_and_of_whom(
    tmp_path: Path, kind: SourceKind, content: str, group: str, of_group: str, what: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content, encoding="utf-8")
    [row] = rows_of(kind, path, group=group)
    assert row["group"] == of_group
    assert what in row["problem"]
    assert row["place"].startswith(str(path))
    assert row["topic"] is None


def test_a_folder_has_all_files_but_hidden_ones(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("a/1.csv", "a/b/2.csv", "a/_SUCCESS", "a/.3.crc"):
        (tmp_path / name).write_text(f"{name[-5]},t,0,1\n")
    found = rows_of(SourceKind.KAFKA_CSV, tmp_path / "a")
    assert [each["group"] for each in found] == ["1", "2"]

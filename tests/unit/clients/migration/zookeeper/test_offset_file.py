"""Files of ExportZkOffsets: the last colon counts, and wrong lines are named by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_clients.migration.values import FoundGroup, Problem, ProblemKind, SourceFailed
from offsetd_clients.migration.zookeeper.offset_file import OffsetFile, lines_of

if TYPE_CHECKING:
    from pathlib import Path


def read(folder: Path, content: bytes) -> list[FoundGroup | Problem]:
    path = folder / "offsets"
    path.write_bytes(content)
    return list(OffsetFile(path=path).groups())


def test_offsets_are_read_group_by_group(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        b"\xef\xbb\xbf/consumers/g/offsets/t/0:5\r\n\n"
        b"/consumers/g/offsets/t/1:6\n   \n"
        b"/ch:root:8/consumers/h:1:2/offsets/u/0:7",
    )
    assert [
        (each.group_id, [(str(o.topic_partition), o.offset) for o in each.offsets])
        for each in found
        if isinstance(each, FoundGroup)
    ] == [("g", [("t:0", 5), ("t:1", 6)]), ("h:1:2", [("u:0", 7)])]
    assert len(found) == 2
    group = found[0]
    assert isinstance(group, FoundGroup)
    assert group.owners is None
    assert group.offsets[0].commit_time_ms is None


@pytest.mark.parametrize(
    ("line", "kind", "group"),
    [
        (b"/consumers/g/offsets/t/1-0:286894308", ProblemKind.BYTE_POSITION, "g"),
        (b"/consumers/g/offsets/t/0:x", ProblemKind.BAD_VALUE, "g"),
        (b"/consumers/g/offsets/t/0:", ProblemKind.BAD_VALUE, "g"),
        (b"/consumers/g/offsets/t/0:-1", ProblemKind.BAD_VALUE, "g"),
        (b"/consumers/g/offsets/t/x:1", ProblemKind.BAD_VALUE, "g"),
        (b"/consumers/g/owners/t/0:1", ProblemKind.BAD_NAME, None),
        (b"/consumers/g/offsets/t/0", ProblemKind.BAD_NAME, None),
        (b"t,0,5", ProblemKind.BAD_NAME, None),
        (b"\xff:1", ProblemKind.BAD_VALUE, None),
    ],
)
def test_wrong_lines_are_named_and_those_behind_them_are_read(
    tmp_path: Path, line: bytes, kind: ProblemKind, group: str | None
) -> None:
    found = read(
        tmp_path,
        b"/consumers/g/offsets/t/7:5\n\n" + line + b"\n/consumers/h/offsets/t/0:1\n",
    )
    own = [each for each in found if isinstance(each, Problem)]
    of_groups = [p for each in found if isinstance(each, FoundGroup) for p in each.problems]
    [problem] = own + of_groups
    assert (problem.kind, problem.group_id) == (kind, group)
    assert problem.where == f"{tmp_path / 'offsets'}:3"
    groups = [each for each in found if isinstance(each, FoundGroup)]
    assert [(each.group_id, len(each.offsets)) for each in groups] == [("g", 1), ("h", 1)]


def test_lines_of_a_group_that_do_not_stand_together_are_named(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        b"".join(b"/consumers/%c/offsets/t/%c:5\n" % (*pair,) for pair in (b"g0", b"h0", b"g1")),
    )
    assert [
        (each.group_id, len(each.problems)) for each in found if isinstance(each, FoundGroup)
    ] == [
        ("g", 0),
        ("h", 0),
        ("g", 1),
    ]


def test_what_is_written_is_read_again_and_what_is_no_path_is_named(tmp_path: Path) -> None:
    lines = [*lines_of("g:1", [("t", 0, 5), ("t", 1, 6)], root="/kafka/consumers")]
    assert lines[0] == "/kafka/consumers/g:1/offsets/t/0:5\n"
    [group] = read(tmp_path, "".join(lines).encode())
    assert isinstance(group, FoundGroup)
    assert (group.group_id, [each.offset for each in group.offsets]) == ("g:1", [5, 6])
    for name in ("a/b", "", ".", "..", "a\nb"):
        with pytest.raises(ValueError, match="no znode"):
            list(lines_of(name, [("t", 0, 5)]))


def test_a_group_is_read_again_and_one_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(b"/consumers/g/offsets/t/0:5\n/consumers/h/offsets/t/0:6\n")
    found = list(OffsetFile(path=path).read_again(["h", "x"]))
    assert [(each.group_id, len(each.offsets)) for each in found] == [("h", 1), ("x", 0)]


def test_a_file_that_is_not_there_ends_it(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed):
        list(OffsetFile(path=tmp_path / "none").groups())

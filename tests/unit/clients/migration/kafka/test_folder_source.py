"""offsetd_clients.migration.kafka.folder_source: what a reader of folders is asked, and tells."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients.migration.kafka import folder_source
from offsetd_clients.migration.kafka.folder_source import FolderSource
from offsetd_clients.migration.values import (
    FoundGroup,
    FoundOffset,
    Problem,
    ProblemKind,
    SourceFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def stored(offset: int, **more: Any) -> Any:
    defaults = {"leader_epoch": -1, "metadata": "", "commit_timestamp_ms": -1}
    return SimpleNamespace(topic="t", partition=0, offset=offset, **{**defaults, **more})


def group(
    group_id: str, *offsets: Any, has_members: bool | None = False, problems: tuple[str, ...] = ()
) -> Any:
    return SimpleNamespace(
        group_id=group_id, has_members=has_members, offsets=offsets, problems=problems
    )


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has the source find a reader that yields what it is given: groups, problems, errors."""

    def use(*script: Any) -> None:
        def read_groups(
            folders: Any, *, problem: Callable[[str], None], note: Callable[[str], None]
        ) -> Iterator[Any]:
            note(f"reading {len(folders)}")
            for each in script:
                if isinstance(each, str):
                    problem(each)
                elif isinstance(each, Exception):
                    raise each
                else:
                    yield each

        point = SimpleNamespace(load=lambda: read_groups)
        monkeypatch.setattr(folder_source, "entry_points", lambda group: [point])

    return use


def source() -> FolderSource:
    return FolderSource([Path("a"), Path("b")], note=lambda _: None)


def test_groups_come_as_the_reader_has_them(reads: Callable[..., None]) -> None:
    whole = stored(7, leader_epoch=3, metadata="m", commit_timestamp_ms=99)
    reads(group("a", whole), group("b", stored(8), has_members=True), group("c", has_members=None))
    a, b, c = source().groups()
    assert a == FoundGroup(
        group_id="a",
        offsets=(
            FoundOffset(
                topic="t", partition=0, offset=7, leader_epoch=3, metadata="m", commit_time_ms=99
            ),
        ),
    )
    assert isinstance(b, FoundGroup)
    assert b.owners == ("members, when it was copied",)
    assert b.offsets == (FoundOffset(topic="t", partition=0, offset=8),)
    assert isinstance(c, FoundGroup)
    assert c.owners is None


def test_what_cannot_be_read_comes_between_groups_and_behind_them(
    reads: Callable[..., None],
) -> None:
    reads("x-0: torn", group("a"), "x-1: rotten: at byte 7")
    before, _, behind = source().groups()
    assert before == Problem(kind=ProblemKind.UNREADABLE, where="x-0", detail="torn")
    assert behind == Problem(kind=ProblemKind.UNREADABLE, where="x-1", detail="rotten: at byte 7")


def test_what_may_be_missing_of_a_group_is_its_own_problem(reads: Callable[..., None]) -> None:
    reads(group("a", stored(1), problems=("x-0: 2 offsets cannot be read",)))
    [found] = source().groups()
    assert isinstance(found, FoundGroup)
    assert found.problems == (
        Problem(
            kind=ProblemKind.UNREADABLE,
            where="x-0",
            detail="2 offsets cannot be read",
            group_id="a",
        ),
    )


def test_groups_are_read_again_in_the_order_asked_for(reads: Callable[..., None]) -> None:
    reads(group("a", stored(1)), "x-0: torn", group("b", stored(2)))
    found = list(source().read_again(["b", "none", "a"]))
    assert [(each.group_id, len(each.offsets)) for each in found] == [
        ("b", 1),
        ("none", 0),
        ("a", 1),
    ]


@pytest.mark.parametrize("error", [ValueError("no folder of offsets"), OSError("gone")])
def test_folders_that_are_none_end_it(reads: Callable[..., None], error: Exception) -> None:
    reads(group("a"), error)
    with pytest.raises(SourceFailed, match=str(error)):
        list(source().groups())


def test_without_the_servers_package_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folder_source, "entry_points", lambda group: [])
    with pytest.raises(SourceFailed, match=r"\[server\]"):
        list(source().groups())


def test_a_plan_knows_where_the_folders_are() -> None:
    folders = [str(Path("a").absolute()), str(Path("b").absolute())]
    assert source().description.options == {"folders": folders}

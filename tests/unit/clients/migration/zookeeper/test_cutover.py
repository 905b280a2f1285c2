"""Cutovers: refused while anybody is alive, whole with the last changes, and safe to be killed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from fake_zookeeper import FakeZooKeeper
from migrations import Killed
from offsetd_clients import TopicPartition
from offsetd_clients.migration.outcomes import Outcome
from offsetd_clients.migration.zookeeper import transactions
from offsetd_clients.migration.zookeeper.mirror_rules import AbsentOffsets, Deletions
from zookeeper_moves import Move, nothing

if TYPE_CHECKING:
    from pathlib import Path

G = "/consumers/g/offsets/t"
NODES = {f"{G}/0": "5", f"{G}/1": "6", "/consumers/h/offsets/t/0": "7"}
MARKS = [f"/offsetd-migration/moved/kafka08%3A%3A{group}" for group in "gh"]


def offsets_of(move: Move) -> dict[str, dict[str, int]]:
    return {
        group: {where: each[0] for where, each in stored.items()}
        for group, stored in move.target.offsets().items()
    }


def test_what_was_written_last_is_moved_and_the_group_is_marked(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.zookeeper.set(f"{G}/0", "3")
    outcomes = move.cut_over(execute=False)
    assert (outcomes["g"].outcome, outcomes["g"].offset_count) == (Outcome.WOULD_CUT_OVER, 1)
    assert offsets_of(move)["g"]["t:0"] == 5
    assert not any(map(move.zookeeper.value, MARKS))
    outcomes = move.cut_over()
    assert {each.outcome for each in outcomes.values()} == {Outcome.CUT_OVER}
    assert offsets_of(move) == {"g": {"t:0": 3, "t:1": 6}, "h": {"t:0": 7}}
    assert all(map(move.zookeeper.value, MARKS))
    assert {each.outcome for each in move.cut_over().values()} == {Outcome.ALREADY}


def test_it_is_refused_where_something_is_deleted_here_unless_that_is_decided(
    tmp_path: Path,
) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.target.delete("g", [TopicPartition("t", 1)])
    move.target.delete_group("h")
    for execute in (False, True):
        refused = move.cut_over(execute=execute)
        assert "1 offset deleted here, as t:1: 6 in ZooKeeper" in refused["g"].problem
        assert {each.outcome for each in refused.values()} == {Outcome.REFUSED}
    assert not any(map(move.zookeeper.value, MARKS))
    assert move.cut_over(absent=AbsentOffsets.STORE)["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move) == {"g": {"t:0": 5, "t:1": 6}, "h": {"t:0": 7}}


def test_a_cutover_without_what_is_deleted_here(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.target.delete("g", [TopicPartition("t", 1)])
    assert move.cut_over(absent=AbsentOffsets.LEAVE)["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"] == {"t:0": 5}


def test_a_commit_here_that_goes_is_named(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.target.commit("g", "t", 0, 50, time_ms=1)
    move.zookeeper.set(f"{G}/0", "9")
    named = "1 offset committed here and later in ZooKeeper, as t:0: 9 in ZooKeeper, 50 here"
    assert move.cut_over(execute=False)["g"].problem == named
    assert move.cut_over()["g"].problem == named


@pytest.mark.parametrize("path", ["/consumers/g/ids/c-1", "/consumers/g/owners/t/0"])
def test_it_is_refused_while_owners_are_alive_unless_forced(tmp_path: Path, path: str) -> None:
    move = Move(tmp_path, FakeZooKeeper({**NODES, path: "c-1"})).make_plan()
    move.run()
    outcomes = move.cut_over()
    assert outcomes["g"].outcome is Outcome.REFUSED
    assert "alive" in outcomes["g"].problem
    assert outcomes["h"].outcome is Outcome.CUT_OVER
    assert move.zookeeper.value(MARKS[0]) is None
    assert move.cut_over(force=True)["g"].outcome is Outcome.CUT_OVER


def test_where_a_layout_does_not_tell_who_is_alive_somebody_has_to_say_so(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper({"/p/g": "0:5"})
    options = {"root": "/p", "topic": "t"}
    move = Move(tmp_path, zookeeper, layout="packed", options=options).make_plan()
    move.run()
    assert "--assume-stopped" in move.cut_over()["g"].problem
    assert move.cut_over(assume_stopped=True)["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move) == {"g": {"t:0": 5}}


def test_a_group_that_somebody_writes_to_meanwhile_is_not_marked(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    commit = move.zookeeper.commit

    def written_meanwhile(operations: list[tuple[str, str, bytes, int]]) -> list[object]:
        if operations[-1][1] == MARKS[0]:
            move.zookeeper.set(f"{G}/1", "60")
        return commit(operations)

    move.zookeeper.commit = written_meanwhile  # type: ignore[method-assign]
    outcome = move.cut_over()["g"]
    assert outcome.outcome is Outcome.REFUSED
    assert f"{G}/1 was written meanwhile" in outcome.problem
    assert move.zookeeper.value(MARKS[0]) is None
    assert "g" not in move.roll_back()
    move.zookeeper.commit = commit  # type: ignore[method-assign]
    assert move.cut_over()["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"]["t:1"] == 60


def test_a_run_may_be_undone_after_a_cutover_that_was_refused(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    commit = move.zookeeper.commit

    def written_meanwhile(operations: list[tuple[str, str, bytes, int]]) -> list[object]:
        move.zookeeper.set(f"{G}/1", "60")
        return commit(operations)

    move.zookeeper.commit = written_meanwhile  # type: ignore[method-assign]
    assert move.cut_over()["g"].outcome is Outcome.REFUSED
    move.zookeeper.commit = commit  # type: ignore[method-assign]
    outcomes = move.undo()
    assert outcomes["g"].outcome is Outcome.UNDONE
    assert "roll that back first" in outcomes["h"].problem
    assert offsets_of(move) == {"h": {"t:0": 7}}


def test_a_run_may_be_undone_after_a_cutover_that_was_cut_before_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    with monkeypatch.context() as patched:
        move.kill_at(4).watch_journal(patched)  # Right behind its first line.
        with pytest.raises(Killed):
            move.cut_over()
    move.kill_at(0)
    assert "roll that back first" in move.undo()["g"].problem  # ZooKeeper may have the mark.
    assert "cut off before the mark" in move.roll_back()["g"].problem
    assert move.undo()["g"].outcome is Outcome.UNDONE
    assert offsets_of(move) == {}


def test_a_znode_that_is_made_while_a_group_is_marked_takes_the_mark_back(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    _write_at_mark(move, MARKS[0], f"{G}/2")
    outcomes = move.cut_over()
    assert f"{G}/2 changed while the group was marked" in outcomes["g"].problem
    assert outcomes["h"].outcome is Outcome.CUT_OVER
    assert move.zookeeper.value(MARKS[0]) is None
    assert move.cut_over()["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"] == {"t:0": 5, "t:1": 6, "t:2": 60}


def test_a_group_that_is_too_large_for_one_transaction_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_OPERATIONS_MAX", 2)
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    _write_at_mark(move, MARKS[0], f"{G}/1")
    assert f"{G}/1 changed while the group was marked" in move.cut_over()["g"].problem
    assert move.zookeeper.value(MARKS[0]) is None
    assert move.cut_over()["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"] == {"t:0": 5, "t:1": 60}


def test_a_partition_that_is_made_meanwhile_is_seen_where_paths_are_walked(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper({"/r/g/t/0": "5", "/r/h/t/0": "6"})
    options = {"path_pattern": "/r/(?P<group>.)/(?P<topic>.)/(?P<partition>.)"}
    move = Move(tmp_path, zookeeper, layout="regex", options=options).make_plan()
    move.run()
    marks = [f"/offsetd-migration/moved/regex%3A%3A{group}" for group in "gh"]
    _write_at_mark(move, marks[1], "/r/h/t/1")
    assert "/r/h/t/1 changed" in move.cut_over(assume_stopped=True)["h"].problem
    assert list(map(bool, map(move.zookeeper.value, marks))) == [True, False]
    assert move.cut_over(assume_stopped=True)["h"].outcome is Outcome.CUT_OVER
    assert offsets_of(move) == {"g": {"t:0": 5}, "h": {"t:0": 6, "t:1": 60}}


def test_a_mark_that_a_kill_left_behind_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    with monkeypatch.context() as patched:
        move.kill_at(5).watch_journal(patched)  # Right behind the transaction.
        with pytest.raises(Killed):
            move.cut_over()
    move.kill_at(0)
    assert move.zookeeper.value(MARKS[0])
    move.zookeeper.set(f"{G}/1", "60")
    assert "changed while the group was marked" in move.cut_over()["g"].problem
    assert move.zookeeper.value(MARKS[0]) is None
    assert move.cut_over()["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"]["t:1"] == 60


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_a_group_that_somebody_has_committed_to_here_is_not_cut_over(
    tmp_path: Path, *, is_mirrored: bool
) -> None:
    """Although what ZooKeeper has is the later one."""
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    if is_mirrored:
        move.zookeeper.set(f"{G}/0", "50000")
        with move.mirror() as following:
            following.catch_up(nothing)
    move.target.commit("g", "t", 0, 500_000, time_ms=0)
    move.zookeeper.set(f"{G}/0", "700")
    for execute in (False, True):
        outcome = move.cut_over(execute=execute)["g"]
        assert outcome.outcome is Outcome.REFUSED
        assert "committed here and far apart, as t:0: 700 in ZooKeeper" in outcome.problem
    assert offsets_of(move)["g"]["t:0"] == 500_000
    assert move.zookeeper.value(MARKS[0]) is None


def test_what_a_mirror_has_stored_is_no_commit_of_somebodys(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.zookeeper.set(f"{G}/0", "50000")
    with move.mirror() as following:
        following.catch_up(nothing)
    move.zookeeper.set(f"{G}/0", "3")
    assert move.cut_over()["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"] == {"t:0": 3, "t:1": 6}


@pytest.mark.parametrize(
    ("deletions", "here"),
    [(None, None), (Deletions.KEEP, {"t:0": 5, "t:1": 6}), (Deletions.FOLLOW, {"t:0": 5})],
)
def test_what_is_deleted_in_zookeeper_is_told_and_kept_or_followed(
    tmp_path: Path, deletions: Deletions | None, here: dict[str, int] | None
) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.zookeeper.remove(f"{G}/1")
    outcome = move.cut_over(deletions=deletions)["g"]
    if here is None:
        assert outcome.outcome is Outcome.REFUSED
        assert "1 offset deleted in ZooKeeper, as t:1: say --deletions" in outcome.problem
        assert offsets_of(move)["g"] == {"t:0": 5, "t:1": 6}
        return
    assert outcome.outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"] == here
    # And a rollback does not make it again, unless that is wished, or somebody has used it here.
    dry = move.roll_back(execute=False)["g"]
    assert ("not made again" in dry.problem) == (deletions is Deletions.KEEP)
    again = move.roll_back(execute=False, recreate_deleted=True)["g"]
    assert again.offset_count - dry.offset_count == (deletions is Deletions.KEEP)
    assert move.roll_back()["g"].outcome is Outcome.ROLLED_BACK
    assert move.zookeeper.value(f"{G}/1") is None


def test_a_deletion_of_what_is_in_use_here_is_not_followed_by_a_cutover(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.zookeeper.remove(f"{G}/1")
    move.target.commit("g", "t", 1, 7)
    assert "committed here since" in move.cut_over(deletions=Deletions.FOLLOW)["g"].problem
    assert offsets_of(move)["g"] == {"t:0": 5, "t:1": 7}


def test_a_group_that_is_deleted_in_zookeeper_is_not_made_again(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.zookeeper.remove("/consumers/g")
    assert "2 offsets deleted in ZooKeeper" in move.cut_over()["g"].problem
    assert move.cut_over(deletions=Deletions.KEEP)["g"].outcome is Outcome.CUT_OVER
    assert move.roll_back()["g"].outcome is Outcome.ROLLED_BACK
    assert move.zookeeper.value("/consumers/g") is None


def test_a_znode_that_is_deleted_since_the_cutover_is_made_again_on_request_alone(
    tmp_path: Path,
) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.cut_over()
    move.zookeeper.remove(f"{G}/1")
    move.target.commit("g", "t", 1, 7)
    assert f"{G}/1 was deleted since the cutover" in move.roll_back()["g"].problem
    assert move.roll_back(recreate_deleted=True)["g"].outcome is Outcome.ROLLED_BACK
    assert move.zookeeper.value(f"{G}/1") == b"7"


def test_what_a_rollback_has_written_back_is_no_commit_of_somebodys(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.cut_over()
    move.target.commit("g", "t", 0, 500_000)
    assert move.roll_back()["g"].outcome is Outcome.ROLLED_BACK
    move.zookeeper.set(f"{G}/0", "700")
    assert move.cut_over()["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"]["t:0"] == 700


def _write_at_mark(move: Move, mark: str, path: str) -> None:
    """Somebody writes right before a mark is set, once."""
    commit = move.zookeeper.commit

    def written_meanwhile(operations: list[tuple[str, str, bytes, int]]) -> list[object]:
        kind, marked, *_ = operations[-1]
        if (kind, marked) == ("create", mark) and move.zookeeper.value(path) != b"60":
            move.zookeeper.set(path, "60")
        return commit(operations)

    move.zookeeper.commit = written_meanwhile  # type: ignore[method-assign]


def test_what_was_not_run_is_not_cut_over(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    assert "run first" in move.cut_over()["g"].problem
    assert (offsets_of(move), move.zookeeper.value(MARKS[0])) == ({}, None)


def test_both_sides_far_apart_are_not_cut_over(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.target.commit("g", "t", 0, 5000, time_ms=2_000_000_000_000)
    assert "far apart" in move.cut_over(disagreement_max=100)["g"].problem
    assert move.cut_over(disagreement_max=5000)["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"]["t:0"] == 5000  # It was written here last.


def test_killed_at_any_point_and_repeated_it_ends_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        move = Move(folder, FakeZooKeeper(NODES)).make_plan()
        move.run()
        move.zookeeper.set(f"{G}/0", "3")
        with monkeypatch.context() as patched:
            move.kill_at(at).watch_journal(patched)
            try:
                move.cut_over()
            except Killed:
                pass
            else:
                assert at > 15, "there are some points to be killed at"
                return
        move.kill_at(0)
        for group, mark in zip("gh", MARKS, strict=True):
            if move.zookeeper.value(mark):
                expected = {"g": {"t:0": 3, "t:1": 6}, "h": {"t:0": 7}}[group]
                assert offsets_of(move)[group] == expected, "marked is moved"
        outcomes = move.cut_over()
        assert not [each for each in outcomes.values() if each.problem]
        assert offsets_of(move) == {"g": {"t:0": 3, "t:1": 6}, "h": {"t:0": 7}}
        assert all(map(move.zookeeper.value, MARKS))
        assert {each.outcome for each in move.roll_back().values()} == {Outcome.ROLLED_BACK}

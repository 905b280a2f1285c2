"""Cutovers: refused while anybody is alive, whole with the last changes, and safe to be killed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from fake_zookeeper import FakeZooKeeper
from migrations import Killed
from offsetd_clients.migration.outcomes import Outcome
from zookeeper_moves import Move

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
    move.zookeeper.commit = commit  # type: ignore[method-assign]
    assert move.cut_over()["g"].outcome is Outcome.CUT_OVER
    assert offsets_of(move)["g"]["t:1"] == 60


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

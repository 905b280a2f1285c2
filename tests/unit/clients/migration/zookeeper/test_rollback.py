"""Rollbacks: what is stored here goes back to ZooKeeper, unless somebody wrote there since."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import attrs
import pytest
from fake_zookeeper import FakeZooKeeper
from migrations import FakeTarget, Killed
from offsetd_clients import Lease, TopicPartition
from offsetd_clients.migration.migration_journal import Journal, Step
from offsetd_clients.migration.outcomes import Outcome
from offsetd_clients.migration.values import SourceFailed
from zookeeper_moves import Move

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_clients import Group

G = "/consumers/g/offsets/t"
NODES = {f"{G}/0": "5", f"{G}/1": "6", "/consumers/h/offsets/t/0": "7"}
MARK = "/offsetd-migration/moved/kafka08%3A%3Ag"
LATER_MS = 1_900_000_000_000


def cut_over(folder: Path) -> Move:
    """And consumers went on here: t:0 forward, t:1 not, t:2 for the first time."""
    move = Move(folder, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.cut_over()
    move.target.commit("g", "t", 0, 50, time_ms=LATER_MS)
    move.target.commit("g", "t", 2, 9, time_ms=LATER_MS)
    return move


def values(move: Move) -> dict[str, bytes]:
    return {
        path: value
        for path, value in move.zookeeper.values().items()
        if path.startswith(("/consumers", "/offsetd-migration/moved"))
    }


BACK = {
    f"{G}/0": b"50",
    f"{G}/1": b"6",
    f"{G}/2": b"9",
    "/consumers/h/offsets/t/0": b"7",
}


def test_what_is_stored_here_is_written_and_the_mark_goes(tmp_path: Path) -> None:
    move = cut_over(tmp_path)
    before = values(move)
    outcomes = move.roll_back(execute=False)
    assert (outcomes["g"].outcome, outcomes["g"].offset_count) == (Outcome.WOULD_ROLL_BACK, 2)
    assert values(move) == before
    assert {each.outcome for each in move.roll_back().values()} == {Outcome.ROLLED_BACK}
    assert values(move) == BACK
    assert move.zookeeper.version(f"{G}/1") == 0  # What has not changed is not written.
    with Journal.open(move.plan.path, move.plan.plan_id) as journal:
        entry = journal.latest(Step.ROLLBACK, "g")
    assert entry is not None
    [path, [version, _, value]], created = entry.details["images"]
    assert (path, version, base64.b64decode(value)) == (f"{G}/0", 0, b"5")
    assert created == [f"{G}/2", None]
    assert {each.outcome for each in move.roll_back().values()} == {Outcome.ALREADY}


def test_a_znode_that_was_written_since_the_cutover_is_not_overwritten(tmp_path: Path) -> None:
    move = cut_over(tmp_path)
    move.zookeeper.set(f"{G}/0", "40")
    outcomes = move.roll_back()
    assert outcomes["g"].outcome is Outcome.REFUSED
    assert f"{G}/0 was written since the cutover" in outcomes["g"].problem
    assert outcomes["h"].outcome is Outcome.ROLLED_BACK
    assert move.zookeeper.value(f"{G}/0") == b"40"
    assert move.zookeeper.value(f"{G}/2") is None  # Nothing of the group was written.
    assert move.roll_back(force=True)["g"].outcome is Outcome.REFUSED


def test_a_znode_that_is_written_right_then_is_not_overwritten(tmp_path: Path) -> None:
    move = cut_over(tmp_path)
    commit = move.zookeeper.commit

    def written_meanwhile(operations: list[tuple[str, str, bytes, int]]) -> list[object]:
        if any(path == f"{G}/0" for _, path, *_ in operations):
            move.zookeeper.set(f"{G}/0", "40")
        return commit(operations)

    move.zookeeper.commit = written_meanwhile  # type: ignore[method-assign]
    assert f"{G}/0 was written meanwhile" in move.roll_back()["g"].problem
    assert move.zookeeper.value(f"{G}/0") == b"40"


def test_the_offsets_of_the_plan_may_be_written_instead(tmp_path: Path) -> None:
    move = cut_over(tmp_path)
    assert move.roll_back(to_plan=True)["g"].outcome is Outcome.ROLLED_BACK
    assert values(move) == {path: value.encode() for path, value in NODES.items()}


def test_it_is_refused_while_anybody_is_alive(tmp_path: Path) -> None:
    move = cut_over(tmp_path)
    move.zookeeper.set("/consumers/g/ids/c-1", "{}")
    assert "alive in ZooKeeper" in move.roll_back()["g"].problem
    assert move.roll_back(force=True)["g"].outcome is Outcome.ROLLED_BACK


def test_it_is_refused_while_somebody_holds_the_groups_lease_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = cut_over(tmp_path)
    group_of = FakeTarget.group
    now = datetime.now(UTC)
    lease = Lease(holder="me", epoch=1, ttl=timedelta(1), grant_time=now, expire_time=now)

    def leased(target: FakeTarget, group_id: str) -> Group | None:
        group = group_of(target, group_id)
        return group and attrs.evolve(group, lease=lease)

    with monkeypatch.context() as patched:
        patched.setattr(FakeTarget, "group", leased)
        assert move.roll_back()["g"].problem == "me holds its lease here"
        assert move.roll_back(force=True)["g"].outcome is Outcome.ROLLED_BACK


def test_groups_that_were_not_cut_over_are_left_alone(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    assert move.roll_back() == {}


def test_what_has_no_znode_and_cannot_get_one_is_refused_whole(tmp_path: Path) -> None:
    options = {"root": "/p", "topic": "t"}
    move = Move(tmp_path, FakeZooKeeper({"/p/g": "0:5"}), layout="packed", options=options)
    move.make_plan()
    move.run()
    move.cut_over(assume_stopped=True)
    move.target.commit("g", "t", 0, 50)
    assert move.roll_back()["g"].outcome is Outcome.ROLLED_BACK
    assert move.zookeeper.value("/p/g") == b"0:50"
    move.cut_over(assume_stopped=True)
    move.target.commit("g", "t", 0, 60, time_ms=LATER_MS)
    move.target.commit("g", "t", 1, 1, time_ms=LATER_MS)
    assert "t:1 has no znode" in move.roll_back()["g"].problem
    assert move.zookeeper.value("/p/g") == b"0:50"


def test_without_its_mark_a_group_is_not_taken_for_rolled_back(tmp_path: Path) -> None:
    move = cut_over(tmp_path)
    before = values(move)
    move.state_root = "/elsewhere"
    outcomes = [*move.roll_back().values(), *move.cut_over().values()]
    assert {each.problem for each in outcomes} == {
        "its mark is below /offsetd-migration: say --state-root /offsetd-migration"
    }
    move.state_root = "/offsetd-migration"
    move.zookeeper.unreadable.add(MARK)
    with pytest.raises(SourceFailed, match="unreadable"):
        move.roll_back()
    move.zookeeper.unreadable.clear()
    assert values(move) == before
    move.zookeeper.delete(MARK)
    outcome = move.roll_back()["g"]
    assert (outcome.outcome, "its mark is gone" in outcome.problem) == (Outcome.REFUSED, True)
    assert "cut over" in move.undo()["g"].problem
    assert move.cut_over()["g"].outcome is Outcome.CUT_OVER
    assert move.roll_back()["g"].outcome is Outcome.ROLLED_BACK
    assert {path: value for path, value in values(move).items() if path in BACK} == BACK


def test_a_rollback_that_was_cut_is_not_finished_below_another_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = cut_over(tmp_path)
    with monkeypatch.context() as patched:
        move.kill_at(4).watch_journal(patched)  # Right behind its first line.
        with pytest.raises(Killed):
            move.roll_back()
    move.kill_at(0)
    move.state_root = "/elsewhere"
    assert "--state-root" in move.roll_back()["g"].problem
    assert "cut over" in move.undo()["g"].problem
    move.state_root = "/offsetd-migration"
    assert move.roll_back()["g"].outcome is Outcome.ROLLED_BACK


def test_killed_at_any_point_and_repeated_it_ends_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        move = cut_over(folder)
        with monkeypatch.context() as patched:
            move.kill_at(at).watch_journal(patched)
            try:
                move.roll_back()
            except Killed:
                pass
            else:
                assert at > 12, "there are some points to be killed at"
                return
        move.kill_at(0)
        of_g = {path: value for path, value in values(move).items() if path.startswith(G)}
        before = {f"{G}/0": b"5", f"{G}/1": b"6"}
        after = {path: value for path, value in BACK.items() if path.startswith(G)}
        assert of_g in (before, after), "a group is written as a whole, or not"
        assert not [each for each in move.roll_back().values() if each.problem]
        assert values(move) == BACK


def test_what_is_deleted_here_stays_in_zookeeper_and_is_named(tmp_path: Path) -> None:
    move = Move(tmp_path, FakeZooKeeper(NODES)).make_plan()
    move.run()
    move.cut_over()
    move.target.delete("g", [TopicPartition("t", 1)])
    named = "1 offset deleted here, as t:1: 6 in ZooKeeper: not changed there"
    assert move.roll_back(execute=False)["g"].problem == named
    assert move.roll_back()["g"].problem == named
    assert move.zookeeper.value(f"{G}/1") == b"6"

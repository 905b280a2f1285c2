"""ZooKeeper is followed: who wrote last counts, however far back that is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from fake_zookeeper import FakeZooKeeper
from migrations import T0_MS, found
from offsetd_clients import CommittedOffset, GroupNotEmpty
from offsetd_clients.errors import Failure
from offsetd_clients.migration.zookeeper.mirror import Mirrored, Move, decide
from zookeeper_moves import Move as Migration
from zookeeper_moves import nothing

if TYPE_CHECKING:
    from pathlib import Path

G = "/consumers/g/offsets/t"
BEFORE, THEN, AFTER = T0_MS - 1, T0_MS, T0_MS + 1


def stored(offset: int, *, time_ms: int = THEN, revision: int = 7) -> CommittedOffset:
    return CommittedOffset(
        offset=offset,
        leader_epoch=None,
        metadata="",
        commit_time=datetime.fromtimestamp(time_ms / 1000, UTC),
        expire_time=None,
        revision=revision,
        end_offset=None,
    )


@pytest.mark.parametrize(
    ("there", "time_ms", "here", "move"),
    [
        (50, THEN, None, Move.STORE),
        (50, BEFORE, stored(50), Move.NOTHING),
        (60, AFTER, stored(50), Move.STORE),
        (40, AFTER, stored(50), Move.STORE),  # A rewind: the larger one is not the right one.
        (40, THEN, stored(50), Move.STORE),  # Twice in a millisecond: the znode counts.
        (60, BEFORE, stored(50), Move.LEAVE),
        (40, BEFORE, stored(50), Move.LEAVE),
        (51 + 100, BEFORE, stored(50), Move.STOP),
        (51 + 100, AFTER, stored(50), Move.STORE),  # Only there: consumers were quick.
        (0, AFTER, stored(500), Move.STORE),
    ],
)
def test_by_time_where_nothing_else_is_known(
    there: int, time_ms: int, here: CommittedOffset | None, move: Move
) -> None:
    offset = found("t", 0, there, time_ms=time_ms, order=3)
    assert decide(offset, here, None, disagreement_max=100) is move


@pytest.mark.parametrize(
    ("order", "here", "move"),
    [
        # Times that lie: ZooKeeper's clock is slow. The order of its writes does not.
        (9, stored(50, revision=7), Move.STORE),
        (8, stored(50, revision=7), Move.LEAVE),
        (9, stored(50, revision=8), Move.STORE),  # Somebody wrote here, too, but not far away.
        (8, stored(50, revision=8), Move.LEAVE),
        (9, stored(500, revision=8), Move.STOP),
        (8, stored(500, revision=8), Move.STOP),
        (9, stored(500, revision=7), Move.STORE),
    ],
)
def test_by_the_order_of_writes_where_we_have_followed(
    order: int, here: CommittedOffset, move: Move
) -> None:
    offset = found("t", 0, 40, time_ms=BEFORE, order=order)
    assert decide(offset, here, Mirrored(8, 7), disagreement_max=100) is move


def test_changes_come_here_and_only_groups_that_have_changed_are_read(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper({f"{G}/0": "5", "/consumers/h/offsets/t/0": "6"})
    move = Migration(tmp_path, zookeeper).make_plan()
    move.run()
    following = move.mirror()
    following.catch_up(nothing)
    assert {group: dict(offsets) for group, offsets in offsets_of(move).items()} == {
        "g": {"t:0": 5},
        "h": {"t:0": 6},
    }
    zookeeper.set(f"{G}/0", "3")
    zookeeper.set(f"{G}/1", "8")  # A new partition.
    zookeeper.reads = 0
    following.catch_up(nothing)
    assert offsets_of(move)["g"] == {"t:0": 3, "t:1": 8}
    assert following.groups["g"].stored_count == 2
    assert 0 < zookeeper.reads < 10, "h has not changed"
    zookeeper.reads = 0
    following.catch_up(nothing)
    assert zookeeper.reads == 0
    zookeeper.set(f"{G}/0", "4")  # The watch is there again.
    following.catch_up(nothing)
    assert offsets_of(move)["g"]["t:0"] == 4
    times = move.target.offsets()["g"]
    assert times["t:0"][2] > times["t:1"][2] > T0_MS  # The znodes'.


def test_groups_that_have_moved_or_were_not_run_are_not_followed(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper({f"{G}/0": "5"})
    move = Migration(tmp_path, zookeeper).make_plan()
    following = move.mirror(has_run=False)
    following.catch_up(nothing)
    assert ("run first" in following.groups["g"].stopped, offsets_of(move)) == (True, {})
    move.run()
    move.cut_over()
    zookeeper.set(f"{G}/0", "9")  # A straggler's.
    following = move.mirror()
    following.catch_up(nothing)
    followed = following.groups["g"]
    assert (followed.has_moved, followed.stopped) == (True, "")
    assert offsets_of(move) == {"g": {"t:0": 5}}


def test_a_group_whose_members_are_here_is_followed_no_further(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper({f"{G}/0": "5", "/consumers/h/offsets/t/0": "6"})
    move = Migration(tmp_path, zookeeper).make_plan()
    failure = Failure(code="FAILED_PRECONDITION", reason="NON_EMPTY_GROUP", message="members")
    move.target.refusals["g"] = GroupNotEmpty(failure)
    following = move.mirror()
    following.catch_up(nothing)
    assert following.groups["g"].stopped == "NON_EMPTY_GROUP: members"
    assert offsets_of(move) == {"h": {"t:0": 6}}


def test_both_sides_far_apart_stop_a_group_and_no_other(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper({f"{G}/0": "5", "/consumers/h/offsets/t/0": "6"})
    move = Migration(tmp_path, zookeeper).make_plan()
    move.run()
    following = move.mirror(disagreement_max=10)
    following.catch_up(nothing)
    move.target.commit("g", "t", 0, 100, time_ms=T0_MS + 60_000)
    zookeeper.set(f"{G}/0", "6")
    zookeeper.set("/consumers/h/offsets/t/0", "7")
    following.catch_up(nothing)
    assert "t:0: 6 in ZooKeeper, 100 here" in following.groups["g"].stopped
    assert offsets_of(move) == {"g": {"t:0": 100}, "h": {"t:0": 7}}


def test_a_problem_stops_a_group_unless_parts_are_good_enough(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper({f"{G}/0": "5", f"{G}/1": "x"})
    move = Migration(tmp_path, zookeeper).make_plan()
    following = move.mirror()
    following.catch_up(nothing)
    assert "bad-value" in following.groups["g"].stopped
    assert offsets_of(move) == {}
    following = move.mirror(allow_partial=True)
    following.catch_up(nothing)
    assert (following.groups["g"].stopped, offsets_of(move)) == ("", {"g": {"t:0": 5}})


def offsets_of(move: Migration) -> dict[str, dict[str, int]]:
    return {
        group: {where: each[0] for where, each in stored.items()}
        for group, stored in move.target.offsets().items()
    }

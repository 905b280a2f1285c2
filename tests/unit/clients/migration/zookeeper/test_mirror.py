"""ZooKeeper is followed, until somebody commits here; what it tells, and what is deleted there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from fake_zookeeper import FakeZooKeeper
from migrations import T0_MS, Killed, found
from mirrored_groups import AFTER, BEFORE, LATE_MS, THEN, G, H, caught_up, moved_of, offsets_of
from offsetd_clients import CommittedOffset, GroupNotEmpty, TopicPartition
from offsetd_clients.errors import Failure
from offsetd_clients.migration import migration_journal as journals
from offsetd_clients.migration.followed_writes import OwnWrite
from offsetd_clients.migration.migration_journal import Journal
from offsetd_clients.migration.own_writes import own_writes
from offsetd_clients.migration.zookeeper.mirror_events import MirrorEventKind
from offsetd_clients.migration.zookeeper.mirror_rules import Deletions, Move, decide
from zookeeper_moves import Move as Migration
from zookeeper_moves import nothing

if TYPE_CHECKING:
    from pathlib import Path


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
    ("there", "order", "here", "own", "move"),
    [
        # Nobody has committed here: what ZooKeeper has comes here, be it further back or long ago.
        (60, 9, stored(50, revision=7), OwnWrite(7, 8), Move.STORE),
        (40, 9, stored(50, revision=7), OwnWrite(7, 8), Move.STORE),
        (40, 9, stored(50, revision=7, time_ms=AFTER), OwnWrite(7, None), Move.STORE),
        (0, 9, stored(500, revision=7), OwnWrite(7, 8), Move.STORE),
        (50, 9, stored(50, revision=9), OwnWrite(7, 8), Move.NOTHING),
        (50, 9, None, None, Move.STORE),
        # Somebody has, far away: whoever was later.
        (500, 9, stored(50, revision=8, time_ms=BEFORE), OwnWrite(7, 8), Move.STOP),
        (500, 9, stored(50, revision=8, time_ms=AFTER), OwnWrite(7, 8), Move.STOP),
        (50, 8, stored(500, revision=8), OwnWrite(7, 8), Move.STOP),
        (500, 9, stored(50, time_ms=BEFORE), None, Move.STOP),
        # Somebody has, near: the later commit counts, if there was one in ZooKeeper at all.
        (60, 9, stored(50, revision=8, time_ms=BEFORE), OwnWrite(7, 8), Move.OVERWRITE),
        (40, 9, stored(50, revision=8, time_ms=THEN), OwnWrite(7, 8), Move.OVERWRITE),
        (60, 9, stored(50, revision=8, time_ms=AFTER), OwnWrite(7, 8), Move.LEAVE),
        (60, 8, stored(50, revision=8, time_ms=BEFORE), OwnWrite(7, 8), Move.LEAVE),
        (60, 9, stored(50, time_ms=BEFORE), None, Move.OVERWRITE),
        (60, 9, stored(50, time_ms=AFTER), None, Move.LEAVE),
        # Somebody has deleted it here: unless it is written there again, it stays so.
        (60, 8, None, OwnWrite(7, 8), Move.ABSENT),
        (60, 9, None, OwnWrite(7, 8), Move.STORE),
    ],
)
def test_who_wrote_last_is_known_by_revisions(
    there: int, order: int, here: CommittedOffset | None, own: OwnWrite | None, move: Move
) -> None:
    offset = found("t", 0, there, time_ms=THEN, order=order)
    assert decide(offset, here, own, disagreement_max=100) is move


def test_changes_come_here_and_only_groups_that_have_changed_are_read(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    zookeeper = move.zookeeper
    with move.mirror() as following:
        following.catch_up(nothing)
        assert offsets_of(move) == {"g": {"t:0": 5}, "h": {"t:0": 6}}
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


def test_a_pass_ends_when_it_is_told_to_and_the_rest_is_left_for_another(tmp_path: Path) -> None:
    nodes = {f"/consumers/{group}/offsets/t/0": "5" for group in "ghi"}
    move = moved_of(tmp_path, nodes)
    for path in nodes:
        move.zookeeper.set(path, "7")
    with move.mirror() as following:

        def end_at_second(done: int, _total: int, _what: str) -> None:
            if done == 2:
                following.end()

        assert following.catch_up(end_at_second) == 1
        assert offsets_of(move) == {"g": {"t:0": 7}, "h": {"t:0": 7}, "i": {"t:0": 5}}
        following.watch(nothing)  # It is over, too.
        assert following.status.changed_count == 1
    caught_up(move)
    assert offsets_of(move)["i"] == {"t:0": 7}


def test_groups_that_have_moved_or_were_not_run_are_not_followed(tmp_path: Path) -> None:
    move = Migration(tmp_path, FakeZooKeeper({f"{G}/0": "5"})).make_plan()
    assert "run first" in caught_up(move)["g"].stopped
    assert offsets_of(move) == {}
    move.run()
    move.undo()
    assert "its run was undone" in caught_up(move)["g"].stopped
    move.run()
    move.cut_over()
    move.zookeeper.set(f"{G}/0", "9")  # A straggler's.
    followed = caught_up(move)["g"]
    assert (followed.has_moved, followed.stopped) == (True, "")
    assert move.told(MirrorEventKind.MOVED) == [("g", "")]
    assert offsets_of(move) == {"g": {"t:0": 5}}


def test_a_group_whose_members_are_here_is_followed_no_further(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    failure = Failure(code="FAILED_PRECONDITION", reason="NON_EMPTY_GROUP", message="members")
    move.target.refusals["g"] = GroupNotEmpty(failure)
    move.zookeeper.set(f"{G}/0", "50")
    move.zookeeper.set(H, "60")
    assert caught_up(move)["g"].stopped == "NON_EMPTY_GROUP: members"
    assert offsets_of(move) == {"g": {"t:0": 5}, "h": {"t:0": 60}}


@pytest.mark.parametrize("is_later_there", [True, False])
@pytest.mark.parametrize("is_new_process", [True, False])
def test_a_commit_here_far_away_stops_a_group_and_no_other(
    tmp_path: Path, *, is_later_there: bool, is_new_process: bool
) -> None:
    """By its revision, whichever of the two is newer, and also if this mirror is new."""
    move = moved_of(tmp_path)
    with move.mirror(disagreement_max=10) as following:
        following.catch_up(nothing)
        move.target.commit("g", "t", 0, 100, time_ms=0 if is_later_there else LATE_MS)
        move.zookeeper.set(f"{G}/0", "6")
        move.zookeeper.set(H, "7")
        if not is_new_process:
            following.catch_up(nothing)
            stopped = following.groups["g"].stopped
    if is_new_process:
        stopped = caught_up(move, disagreement_max=10)["g"].stopped
    assert stopped == "1 offset committed here and far apart, as t:0: 6 in ZooKeeper, 100 here"
    assert move.told(MirrorEventKind.STOPPED) == [("g", stopped)]
    assert offsets_of(move) == {"g": {"t:0": 100}, "h": {"t:0": 7}}


def test_what_mirrors_have_stored_is_known_as_their_own_by_the_next_one(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    for offset in ("600", "20", "70000"):
        move.zookeeper.set(f"{G}/0", offset)
        assert caught_up(move, disagreement_max=10)["g"].stopped == ""
        assert offsets_of(move)["g"] == {"t:0": int(offset)}


def test_what_stood_here_as_planned_is_taken_for_our_own(tmp_path: Path) -> None:
    move = Migration(tmp_path, FakeZooKeeper({f"{G}/0": "5"})).make_plan()
    move.target.commit("g", "t", 0, 5)
    move.run()
    move.zookeeper.set(f"{G}/0", "600")
    assert caught_up(move, disagreement_max=10)["g"].stopped == ""
    assert offsets_of(move) == {"g": {"t:0": 600}}


@pytest.mark.parametrize("is_shortened", [False, True])
def test_a_mirror_killed_at_any_point_knows_what_it_has_stored_also_behind_its_next_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shortened: bool
) -> None:
    if is_shortened:
        monkeypatch.setattr(journals, "_SHORTENED_BYTES_MIN", 1)
    for at in range(1, 30):
        folder = tmp_path / str(at)
        folder.mkdir()
        move = moved_of(folder, {f"{G}/0": "5", f"{G}/1": "6", f"{G}/2": "7"})
        for partition, offset in enumerate(("600", "700", "800")):
            move.zookeeper.set(f"{G}/{partition}", offset)
        with monkeypatch.context() as patched:
            move.kill_at(at).watch_journal(patched)
            try:
                caught_up(move, disagreement_max=10)
            except Killed:
                pass
            else:
                assert at > 5, "there are some points to be killed at"
                return
        move.kill_at(0)
        for partition, offset in enumerate(("70000", "80000", "90000")):
            move.zookeeper.set(f"{G}/{partition}", offset)
            assert caught_up(move, disagreement_max=10)["g"].stopped == ""
        assert offsets_of(move)["g"] == {"t:0": 70000, "t:1": 80000, "t:2": 90000}


def test_a_commit_like_the_one_a_kill_has_cut_off_is_somebodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same offset, but not the time that it has in ZooKeeper."""
    move = moved_of(tmp_path)
    move.zookeeper.set(f"{G}/0", "600")
    with monkeypatch.context() as patched:
        move.kill_at(4).watch_journal(patched)  # It was to be stored, and was not.
        with pytest.raises(Killed):
            caught_up(move)
    move.kill_at(0)
    assert offsets_of(move)["g"] == {"t:0": 5}
    move.target.commit("g", "t", 0, 600, time_ms=LATE_MS)
    move.zookeeper.set(f"{G}/0", "70000")
    assert "committed here" in caught_up(move, disagreement_max=10)["g"].stopped


def test_a_journal_of_long_following_stays_short_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_SHORTENED_BYTES_MIN", 4096)
    move = moved_of(tmp_path)
    with move.mirror(disagreement_max=10) as following:
        for offset in range(1000, 1300):
            move.zookeeper.set(f"{G}/0", str(offset * 100))
            move.zookeeper.set(H, str(offset * 100))
            following.catch_up(nothing)
    assert (tmp_path / "plan.journal").stat().st_size < 3 * 4096
    with Journal.open(move.plan.path, move.plan.plan_id) as journal:
        here = move.target.stored(["g"])["g"]
        own = own_writes(journal, "g", here)
        assert journal.latest(journals.Step.RUN, "g") is not None
    where = TopicPartition("t", 0)
    assert own[where].revision == here[where].revision
    move.zookeeper.set(f"{G}/0", "7")
    assert caught_up(move, disagreement_max=10)["g"].stopped == ""
    assert len(set(move.target.request_ids)) == len(move.target.request_ids)


def test_a_problem_stops_a_group_unless_parts_are_good_enough(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    move.zookeeper.set(f"{G}/0", "50")
    move.zookeeper.set(f"{G}/1", "x")
    assert "bad-value" in caught_up(move)["g"].stopped
    assert offsets_of(move)["g"] == {"t:0": 5}
    assert caught_up(move, allow_partial=True)["g"].stopped == ""
    assert offsets_of(move)["g"] == {"t:0": 50}


def test_what_is_deleted_in_zookeeper_is_told_once_and_kept(tmp_path: Path) -> None:
    move = moved_of(tmp_path, {f"{G}/0": "5", f"{G}/1": "6", H: "7"})
    with move.mirror() as following:
        following.catch_up(nothing)
        move.zookeeper.remove(f"{G}/1")
        for _ in range(2):
            move.zookeeper.set(f"{G}/0", "9")
            following.catch_up(nothing)
        text = "1 offset deleted in ZooKeeper, as t:1; kept here"
        assert move.told(MirrorEventKind.DELETED) == [("g", text)]
        assert (following.status.deleted_count, following.groups["g"].stopped) == (1, "")
        move.zookeeper.set(f"{G}/1", "8")  # It is there again.
        following.catch_up(nothing)
        assert move.told(MirrorEventKind.RETURNED) == [("g", "1 offset, as t:1")]
        assert following.status.deleted_count == 0
    assert offsets_of(move)["g"] == {"t:0": 9, "t:1": 8}


def test_a_group_that_is_deleted_in_zookeeper_is_told_and_followed_when_it_comes_back(
    tmp_path: Path,
) -> None:
    move = moved_of(tmp_path)
    with move.mirror() as following:
        following.catch_up(nothing)
        move.zookeeper.remove("/consumers/g")
        following.catch_up(nothing)
        text = "the group is deleted in ZooKeeper: 1 offset; kept here"
        assert move.told(MirrorEventKind.DELETED) == [("g", text)]
        assert offsets_of(move)["g"] == {"t:0": 5}
        move.zookeeper.set(f"{G}/0", "2")
        following.catch_up(nothing)
    assert offsets_of(move)["g"] == {"t:0": 2}


LAYOUTS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("packed", {"root": "/p", "topic": "t"}, {"/p/g": "0:5", "/p/h": "0:6"}),
    (
        "storm",
        {"root": "/s"},
        {f"/s/{each}/partition_0": '{"offset":5,"partition":0,"topic":"t"}' for each in "gh"},
    ),
    (
        "trident",
        {},
        {
            f"/transactional/{each}/user/partition_0/9": '{"offset":4,"nextOffset":5,"topic":"t"}'
            for each in "gh"
        },
    ),
    (
        "trident-client",
        {},
        {f"/transactional/{each}/user/t@0/1": '{"firstOffset":1,"lastOffset":4}' for each in "gh"},
    ),
    (
        "regex",
        {"path_pattern": "/r/(?P<group>.)/(?P<topic>.)/(?P<partition>.)"},
        {"/r/g/t/0": "5", "/r/h/t/0": "6"},
    ),
]


@pytest.mark.parametrize(("layout", "options", "nodes"), LAYOUTS)
def test_a_deleted_group_is_told_in_every_layout(
    tmp_path: Path, layout: str, options: dict[str, Any], nodes: dict[str, str]
) -> None:
    zookeeper = FakeZooKeeper(nodes)
    move = Migration(tmp_path, zookeeper, layout=layout, options=options).make_plan()
    move.run()
    with move.mirror() as following:
        following.catch_up(nothing)
        zookeeper.remove(next(iter(nodes)).partition("/g")[0] + "/g")
        following.catch_up(nothing)
        assert following.groups["g"].stopped == ""
    assert [group for group, _ in move.told(MirrorEventKind.DELETED)] == ["g"]


def test_deletions_are_followed_if_that_is_wished(tmp_path: Path) -> None:
    move = moved_of(tmp_path, {f"{G}/0": "5", f"{G}/1": "6", H: "7"})
    with move.mirror(deletions=Deletions.FOLLOW) as following:
        following.catch_up(nothing)
        move.zookeeper.remove(f"{G}/1")
        following.catch_up(nothing)
        assert offsets_of(move) == {"g": {"t:0": 5}, "h": {"t:0": 7}}
        move.zookeeper.set(f"{G}/1", "3")
        following.catch_up(nothing)
        assert offsets_of(move)["g"] == {"t:0": 5, "t:1": 3}
        move.zookeeper.remove("/consumers/h")
        following.catch_up(nothing)
    assert offsets_of(move) == {"g": {"t:0": 5, "t:1": 3}}
    texts = [text for _, text in move.told(MirrorEventKind.DELETED)]
    assert texts == [
        "1 offset deleted in ZooKeeper, as t:1",
        "the group is deleted in ZooKeeper: 1 offset",
    ]


def test_a_deletion_of_what_somebody_has_committed_to_here_is_not_followed(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    move.target.commit("g", "t", 0, 6, time_ms=LATE_MS)
    move.zookeeper.remove(f"{G}/0")
    followed = caught_up(move, deletions=Deletions.FOLLOW)["g"]
    assert followed.stopped == "1 offset deleted in ZooKeeper, as t:0, committed here since"
    assert offsets_of(move)["g"] == {"t:0": 6}


def test_what_cannot_be_read_is_not_taken_for_deleted(tmp_path: Path) -> None:
    move = moved_of(tmp_path, {f"{G}/0": "5", f"{G}/1": "6"})
    move.zookeeper.set(f"{G}/1", "x")
    caught_up(move, deletions=Deletions.FOLLOW, allow_partial=True)
    assert offsets_of(move)["g"] == {"t:0": 5, "t:1": 6}
    assert move.told(MirrorEventKind.DELETED) == []

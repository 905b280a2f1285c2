"""What a mirror tells while it runs, and what it outlasts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from mirrored_groups import BEFORE, G, H, caught_up, moved_of, offsets_of
from offsetd_clients import TopicPartition, Unavailable
from offsetd_clients.errors import Failure
from offsetd_clients.migration.outcomes import MigrationStopped
from offsetd_clients.migration.zookeeper.mirror_events import MirrorEventKind
from offsetd_clients.migration.zookeeper.mirror_rules import AbsentOffsets
from zookeeper_moves import nothing

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_clients.migration.zookeeper.mirror import Mirror


def test_the_status_says_how_it_stands_and_is_told_again_and_again(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    with (
        move.mirror(status_interval_s=0.01, interval_s=0.0) as following,
        following.status_told(),
    ):
        watching = threading.Thread(target=following.watch, args=(nothing,))
        watching.start()
        move.zookeeper.set(f"{G}/0", "9")
        while len(move.told(MirrorEventKind.STATUS)) < 3 or not following.status.stored_count:
            threading.Event().wait(0.005)
        following.end()
        watching.join()
        status = following.status
    assert (status.followed_count, status.stored_count, status.changed_count) == (2, 1, 0)
    assert (status.lag_s, status.is_connected) == (0.0, True)
    assert "2 groups followed, 0 stopped, 0 moved" in move.told(MirrorEventKind.STATUS)[0][1]


def test_the_lag_is_how_long_the_first_change_waits(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    now = [100.0]
    with move.mirror() as following:
        following._monotonic_s = lambda: now[0]
        following.catch_up(nothing)
        move.zookeeper.set(f"{G}/0", "9")
        now[0] = 130.0
        move.zookeeper.set(H, "9")
        now[0] = 140.0
        assert (following.status.changed_count, following.status.lag_s) == (2, 40.0)
        following.catch_up(nothing)
        assert following.status.lag_s == 0.0


def test_the_status_is_told_while_zookeeper_is_waited_for(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    found_again = threading.Event()

    class AwayLock(LostLock):
        def regained(self) -> bool:
            return found_again.wait(0.01)

    with move.mirror(status_interval_s=0.01, interval_s=0.0) as following, following.status_told():
        following._lock = AwayLock()  # type: ignore[assignment]

        def told_while_away() -> bool:
            return any("does not answer" in text for _, text in move.told(MirrorEventKind.STATUS))

        watched_until(following, told_while_away)
        found_again.set()


def test_the_end_of_the_session_at_the_end_is_not_told(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    with move.mirror() as following:
        following.catch_up(nothing)
        following.close()
        following.connection_changed(is_connected=False)
    assert move.told(MirrorEventKind.ZOOKEEPER_LOST) == []


def test_what_is_deleted_here_is_told_once_and_stored_again_on_request(tmp_path: Path) -> None:
    move = moved_of(tmp_path, {f"{G}/0": "5", f"{G}/1": "6"})
    move.target.delete("g", [TopicPartition("t", 1)])
    with move.mirror() as following:
        following.catch_up(nothing)
        following._note("g")
        following.catch_up(nothing)
    assert move.told(MirrorEventKind.ABSENT) == [
        ("g", "1 offset deleted here, as t:1: 6 in ZooKeeper; left so")
    ]
    assert offsets_of(move)["g"] == {"t:0": 5}
    caught_up(move, absent=AbsentOffsets.STORE)
    assert offsets_of(move)["g"] == {"t:0": 5, "t:1": 6}


def test_a_commit_here_that_an_own_later_one_in_zookeeper_replaces_is_told(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    move.target.commit("g", "t", 0, 50, time_ms=BEFORE)
    move.zookeeper.set(f"{G}/0", "9")
    caught_up(move)
    assert move.told(MirrorEventKind.OVERWRITTEN) == [
        ("g", "1 offset committed here and later in ZooKeeper, as t:0: 9 in ZooKeeper, 50 here")
    ]


def test_a_group_that_comes_back_is_kept_as_the_run_has_set(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    assert move.target.retentions["g"] == "never"
    move.target.delete_group("g")
    move.zookeeper.set(f"{G}/0", "9")
    caught_up(move)
    assert (offsets_of(move)["g"], move.target.retentions["g"]) == ({"t:0": 9}, "never")


class LostLock:
    """ZooKeeper is lost at the first look, and found after a while."""

    def __init__(self) -> None:
        self.looks = 0
        self.is_to_be_regained = False

    def check(self) -> None:
        self.looks += 1
        if self.looks == 2:
            self.is_to_be_regained = True
            raise MigrationStopped("the session with ZooKeeper has ended, and the lock with it")

    def regained(self) -> bool:
        self.is_to_be_regained = not self.is_to_be_regained
        return not self.is_to_be_regained


def watched_until(following: Mirror, condition: Any) -> None:
    watching = threading.Thread(target=following.watch, args=(nothing,))
    watching.start()
    while not condition() and watching.is_alive():
        threading.Event().wait(0.005)
    following.end()
    watching.join()
    assert condition()


def test_a_zookeeper_that_is_lost_and_found_is_told_and_followed_further(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    move.zookeeper.set(f"{G}/0", "9")
    move.zookeeper.set(H, "9")
    with move.mirror(interval_s=0.0) as following:
        following._lock = LostLock()  # type: ignore[assignment]
        nines = {"g": {"t:0": 9}, "h": {"t:0": 9}}
        watched_until(following, lambda: offsets_of(move) == nines)
    kinds = [each.kind for each in move.events]
    assert kinds == [MirrorEventKind.ZOOKEEPER_LOST, MirrorEventKind.ZOOKEEPER_FOUND]


def test_a_server_that_is_lost_and_found_is_told_and_written_to_further(tmp_path: Path) -> None:
    move = moved_of(tmp_path)
    failure = Failure(code="UNAVAILABLE", message="no connection")
    move.zookeeper.set(f"{G}/0", "9")
    with move.mirror(interval_s=0.0) as following:
        move.target.refusals["g"] = Unavailable(failure)

        def told(kind: MirrorEventKind) -> list[tuple[str, str]]:
            return move.told(kind)

        watching = threading.Thread(target=following.watch, args=(nothing,))
        watching.start()
        while not told(MirrorEventKind.SERVER_LOST):
            threading.Event().wait(0.005)
        del move.target.refusals["g"]
        while not told(MirrorEventKind.SERVER_FOUND):
            threading.Event().wait(0.005)
        following.end()
        watching.join()
    assert offsets_of(move)["g"] == {"t:0": 9}

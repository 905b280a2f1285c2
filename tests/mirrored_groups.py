"""Two groups that were moved off a ZooKeeper in memory, and mirrors of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fake_zookeeper import FakeZooKeeper
from migrations import T0_MS
from zookeeper_moves import Move as Migration
from zookeeper_moves import nothing

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_clients.migration.zookeeper.mirror import Followed

G = "/consumers/g/offsets/t"
H = "/consumers/h/offsets/t/0"
BEFORE, THEN, AFTER = T0_MS - 1, T0_MS, T0_MS + 1
LATE_MS = T0_MS + 60_000


def moved_of(folder: Path, nodes: dict[str, str] | None = None) -> Migration:
    """A plan that was run."""
    move = Migration(folder, FakeZooKeeper(nodes or {f"{G}/0": "5", H: "6"})).make_plan()
    move.run()
    return move


def caught_up(move: Migration, **options: Any) -> dict[str, Followed]:
    """One pass of a mirror that begins, and ends."""
    with move.mirror(**options) as following:
        following.catch_up(nothing)
        return dict(following.groups)


def offsets_of(move: Migration) -> dict[str, dict[str, int]]:
    return {
        group: {where: each[0] for where, each in stored.items()}
        for group, stored in move.target.offsets().items()
    }

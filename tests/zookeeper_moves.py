"""A move off a ZooKeeper in memory, step by step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import attrs
from migrations import FakeTarget, KillSwitch
from offsetd_clients.migration.migration_journal import Journal
from offsetd_clients.migration.plan_file import Plan, write_plan
from offsetd_clients.migration.rates import RateLimit
from offsetd_clients.migration.run import RunOptions, run
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.undo import undo
from offsetd_clients.migration.zookeeper.connection import STATE_ROOT_DEFAULT
from offsetd_clients.migration.zookeeper.cutover import Cutover, CutoverOptions
from offsetd_clients.migration.zookeeper.kazoo_tree import KazooTree
from offsetd_clients.migration.zookeeper.layouts import layout_of
from offsetd_clients.migration.zookeeper.layouts.layout import LayoutOptions
from offsetd_clients.migration.zookeeper.mirror import Mirror, MirrorOptions
from offsetd_clients.migration.zookeeper.rollback import Rollback, RollbackOptions
from offsetd_clients.migration.zookeeper.source import ZooKeeperSource, marks_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_zookeeper import FakeZooKeeper
    from offsetd_clients.migration.outcomes import GroupOutcome
    from offsetd_clients.migration.target import Target
    from offsetd_clients.migration.zookeeper.mirror_events import MirrorEvent, MirrorEventKind


class FreeLock:
    """Nobody else is at work."""

    def check(self) -> None: ...


@attrs.define
class Move:
    """Of the groups in layout kafka08."""

    folder: Path
    zookeeper: FakeZooKeeper
    target: FakeTarget = attrs.field(factory=FakeTarget)
    layout: str = "kafka08"
    options: dict[str, Any] = attrs.field(factory=dict)
    state_root: str = STATE_ROOT_DEFAULT
    events: list[MirrorEvent] = attrs.field(factory=list)

    @property
    def plan(self) -> Plan:
        return Plan.open(self.folder / "plan")

    @property
    def tree(self) -> KazooTree:
        return KazooTree(cast("Any", self.zookeeper))

    def make_plan(self, **selection: Any) -> Move:
        source = ZooKeeperSource.of(self.tree, "h:1", self.layout, LayoutOptions(**self.options))
        write_plan(self.folder / "plan", source, Selection(**selection), created_ms=0)
        return self

    def run(self) -> dict[str, GroupOutcome]:
        plan = self.plan
        with Journal.open(plan.path, plan.plan_id) as journal:
            options = RunOptions(execute=True)
            target = cast("Target", self.target)
            return by_id(run(plan, journal, target, options, RateLimit(None)))

    @contextmanager
    def mirror(self, **options: Any) -> Iterator[Mirror]:
        """One that has the journal for as long as it goes; `events` has what it tells."""
        plan = self.plan
        self.events.clear()
        with Journal.open(plan.path, plan.plan_id) as journal:
            following = Mirror(
                self.tree,
                self._layout(),
                marks_of(plan.source, self.state_root),
                cast("Target", self.target),
                MirrorOptions(**options),
                cast("Any", FreeLock()),
                journal,
                tell=self.events.append,
            )
            for group in plan.groups():
                following.follow(group, lambda _: True)
            yield following

    def told(self, kind: MirrorEventKind) -> list[tuple[str, str]]:
        """Group and text of the events of a kind."""
        return [(each.group_id, each.text) for each in self.events if each.kind is kind]

    def cut_over(self, **options: Any) -> dict[str, GroupOutcome]:
        plan = self.plan
        with Journal.open(plan.path, plan.plan_id) as journal:
            chosen = CutoverOptions(**{"execute": True, **options})
            return by_id(Cutover(options=chosen, **self._parts(plan, journal)).groups())

    def roll_back(self, **options: Any) -> dict[str, GroupOutcome]:
        plan = self.plan
        with Journal.open(plan.path, plan.plan_id) as journal:
            chosen = RollbackOptions(**{"execute": True, **options})
            return by_id(Rollback(options=chosen, **self._parts(plan, journal)).groups())

    def undo(self) -> dict[str, GroupOutcome]:
        plan = self.plan
        with Journal.open(plan.path, plan.plan_id) as journal:
            return by_id(undo(plan, journal, cast("Target", self.target), execute=True))

    def kill_at(self, at: int) -> KillSwitch:
        """From now on, at the point of that number; 0: at none."""
        self.target.kills = self.zookeeper.kills = KillSwitch(at)
        return self.target.kills

    def _layout(self) -> Any:
        return layout_of(self.layout, LayoutOptions(**self.options))

    def _parts(self, plan: Plan, journal: Journal) -> dict[str, Any]:
        return {
            "plan": plan,
            "journal": journal,
            "client": self.zookeeper,
            "layout": self._layout(),
            "marks": marks_of(plan.source, self.state_root),
            "target": self.target,
            "lock": FreeLock(),
        }


def by_id(outcomes: Any) -> dict[str, GroupOutcome]:
    return {each.group_id: each for each in outcomes}


def nothing(_done: int, _total: int, _what: str) -> None:
    """Progress that nobody sees."""

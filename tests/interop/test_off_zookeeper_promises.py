"""What the guide "Off ZooKeeper" promises, beside its steps, tried with a real ZooKeeper."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from interop.test_zookeeper_migration import (  # noqa: F401  Fixtures are found by their names.
    consumers,
    server,
    world,
    zookeeper,
)
from offsetd_clients import TopicPartition
from promised import promised_by
from server_process import poll

if TYPE_CHECKING:
    from interop.test_zookeeper_migration import World

pytestmark = pytest.mark.zookeeper

promised = promised_by("docs/guides/migration-off-zookeeper.md")
SEES_S_MAX = 60


def znode(world: World, group: str, partition: int = 0) -> bytes:  # noqa: F811
    content: bytes = world.client.get(f"/consumers/{group}/offsets/orders/{partition}")[0]
    return content


@promised(
    "where something else is stored here already: `behind`, `ahead`, `conflict` "
    "(`--overwrite STATE`)",
    "groups that have members here, or whose lease is held.",
    "What cannot be done is named and counted, and stops nothing else.",
)
def test_what_is_stored_here_is_not_overwritten_by_a_run(world: World) -> None:  # noqa: F811
    names = ("behind", "ahead", "held", "free")
    world.put({at: value for each in names for at, value in consumers(f"p1-{each}", 1).items()})
    world.offsetd("commit", "p1-behind", "orders:0=99")
    world.offsetd("commit", "p1-ahead", "orders:0=101")
    world.offsets.acquire_group("p1-held", "host-1")
    assert world.make_plan("--include", "p1-.*").code == 0
    done = world.step("run", world.plan, "--execute")
    assert done.code == 3, done
    here = {each: world.stored(f"p1-{each}") for each in names}
    wanted = {"orders:0": 100}
    before = {"behind": {"orders:0": 99}, "ahead": {"orders:0": 101}, "held": {}, "free": wanted}
    assert here == before
    for each in ("behind", "ahead", "held"):
        assert f"p1-{each}" in done.stderr
    assert world.step("run", world.plan, "--execute", "--overwrite", "behind").code == 3
    assert (world.stored("p1-behind"), world.stored("p1-ahead")) == (wanted, {"orders:0": 101})
    assert world.step("run", world.plan, "--execute", "--overwrite", "ahead").code == 3
    assert (world.stored("p1-ahead"), world.stored("p1-held")) == (wanted, {})


@promised(
    "Offsets of migrated groups do not expire here, because they did not expire in ZooKeeper.",
    "Groups that have a retention of their own here keep it",
    "it restores what was there before, and deletes groups that were not there. It also takes "
    "back the retention that a run has set, if it has not changed since.",
    "A group is in use, and is refused whole, if somebody has committed to it since (to any of "
    "its partitions), or if it has members or a lease here.",
)
def test_an_undoing_takes_back_what_runs_have_stored_and_set(world: World) -> None:  # noqa: F811
    names = ("new", "there", "own", "used", "held")
    world.put({at: value for each in names for at, value in consumers(f"p2-{each}", 2).items()})
    world.offsetd("commit", "p2-there", "orders:0=7")
    world.offsetd("commit", "p2-own", "orders:9=9")
    own = timedelta(days=90)
    world.offsets.update_group("p2-own", retention=own)
    assert world.make_plan("--include", "p2-.*").code == 0
    run = world.step("run", world.plan, "--execute", "--overwrite", "behind")
    assert run.code == 0, run
    assert world.offsets.get_group("p2-new").retention == "never"
    assert world.offsets.get_group("p2-own").retention == own
    world.offsetd("commit", "p2-used", "orders:5=1")
    world.offsets.acquire_group("p2-held", "host-1")
    assert world.step("undo", world.plan).code in (0, 3)
    assert world.stored("p2-new") == {"orders:0": 100, "orders:1": 101}
    done = world.step("undo", world.plan, "--execute")
    assert done.code == 3, done
    assert {each: world.stored(f"p2-{each}") for each in names} == {
        "new": {},
        "there": {"orders:0": 7},
        "own": {"orders:9": 9},
        "used": {"orders:0": 100, "orders:1": 101, "orders:5": 1},
        "held": {"orders:0": 100, "orders:1": 101},
    }
    left = {listing.group_id for listing in world.offsets.list_groups()}
    assert "p2-new" not in left
    assert world.offsets.get_group("p2-there").retention is None
    assert world.offsets.get_group("p2-own").retention == own


@promised(
    "so that nothing is read twice (`--to-plan` writes the offsets of the plan instead)",
    "each znode that changes must still have its version of the cutover; otherwise nothing of the "
    "group is written",
    "or members or a lease holder here (`--force` overrides this)",
    "The previous content of the znodes is kept in the journal next to the plan.",
)
def test_a_rollback_writes_nothing_where_somebody_has_written(world: World) -> None:  # noqa: F811
    names = ("plain", "planned", "written", "held")
    world.put({at: value for each in names for at, value in consumers(f"p3-{each}", 2).items()})
    assert world.make_plan("--include", "p3-.*").code == 0
    assert world.step("run", world.plan, "--execute").code == 0
    assert world.step("cutover", world.plan, "--execute").code == 0
    for each in names:
        world.offsetd("commit", f"p3-{each}", "orders:0=500", "orders:1=501")
    world.put({"/consumers/p3-written/offsets/orders/1": "300"})
    world.offsets.acquire_group("p3-held", "host-1")
    shown = world.step("rollback", world.plan)
    assert (shown.code, znode(world, "p3-plain")) == (3, b"100"), shown
    done = world.step("rollback", world.plan, "--execute")
    assert done.code == 3, done
    assert (znode(world, "p3-plain"), znode(world, "p3-plain", 1)) == (b"500", b"501")
    assert (znode(world, "p3-written"), znode(world, "p3-written", 1)) == (b"100", b"300")
    assert (znode(world, "p3-held"), znode(world, "p3-held", 1)) == (b"100", b"101")
    for each in ("written", "held"):
        assert f"p3-{each}" in done.stderr
    forced = world.step("rollback", world.plan, "--execute", "--force")
    assert (forced.code, znode(world, "p3-held")) == (3, b"500"), forced
    assert znode(world, "p3-written") == b"100"


@promised("(`--to-plan` writes the offsets of the plan instead)")
def test_a_rollback_to_the_plan_writes_what_it_had(world: World) -> None:  # noqa: F811
    world.put(consumers("p4", 2))
    assert world.make_plan("--include", "p4").code == 0
    assert world.step("run", world.plan, "--execute").code == 0
    world.put({"/consumers/p4/offsets/orders/0": "150"})
    assert world.step("cutover", world.plan, "--execute").code == 0
    assert world.stored("p4")["orders:0"] == 150
    world.offsetd("commit", "p4", "orders:0=500", "orders:1=501")
    assert world.step("rollback", world.plan, "--to-plan", "--execute").code == 0
    assert (znode(world, "p4"), znode(world, "p4", 1)) == (b"100", b"101")
    assert world.offsets.fetch("p4")[TopicPartition("orders", 0)].offset == 500


@promised(
    "`another process works with this plan`",
    "`… is at work: one migrator at a time`",
    "`it has moved, by plan …` | it was cut over before. `plan --again` plans it all the same",
)
def test_what_is_told_if_something_goes_wrong(world: World) -> None:  # noqa: F811
    world.put(consumers("p5", 1) | consumers("p5-other", 1))
    assert world.make_plan("--include", "p5").code == 0
    assert world.step("run", world.plan, "--execute").code == 0
    other = str(world.folder / "other.jsonl")
    chosen = ("--hosts", world.hosts, "--include", "p5-other", "--file", other)
    assert world.step("plan", *chosen).code == 0
    assert world.step("run", other, "--execute").code == 0
    mirror = world.started("mirror", world.plan)
    try:
        world.put({"/consumers/p5/offsets/orders/0": "200"})
        poll(lambda: world.stored("p5") == {"orders:0": 200}, SEES_S_MAX)
        same = world.step("cutover", world.plan, "--execute")
        assert (same.code, "another process works with this plan" in same.stderr) == (1, True)
        second = world.step("cutover", other, "--execute")
        assert (second.code, "is at work: one migrator at a time" in second.stderr) == (1, True)
    finally:
        mirror.terminate()
        mirror.communicate(timeout=SEES_S_MAX)
    assert world.step("cutover", world.plan, "--execute").code == 0
    moved = world.step("plan", "--hosts", world.hosts, "--include", "p5")
    assert (moved.code, "it has moved, by plan" in moved.stderr) == (1, True), moved
    again = world.step("plan", "--hosts", world.hosts, "--include", "p5", "--again")
    assert (again.code, "it has moved" in again.stderr) == (0, False), again


@promised(
    "These groups are refused:",
    "groups with offsets that are deleted in ZooKeeper but stored here: `--deletions follow` "
    "deletes them here, `--deletions keep` leaves them",
    "`deleted`: stored here, but deleted in ZooKeeper.",
)
@pytest.mark.parametrize("deletions", ["follow", "keep"])
def test_what_is_deleted_there_waits_for_a_word(world: World, deletions: str) -> None:  # noqa: F811
    group = f"p6-{deletions}"
    world.put(consumers(group, 2))
    assert world.make_plan("--include", group).code == 0
    assert world.step("run", world.plan, "--execute").code == 0
    world.client.delete(f"/consumers/{group}/offsets/orders/1")
    verified = world.step("verify", world.plan)
    assert (verified.code, "deleted" in verified.stdout) == (1, True), verified
    allowed = world.step("verify", world.plan, "--allow-ahead")
    assert (allowed.code, "deleted" in allowed.stdout) == (0, True), allowed
    assert world.step("mirror", world.plan, "--once").code == 0
    refused = world.step("cutover", world.plan, "--execute")
    assert (refused.code, group in refused.stderr) == (1, True), refused
    assert world.stored(group) == {"orders:0": 100, "orders:1": 101}
    done = world.step("cutover", world.plan, "--execute", "--deletions", deletions)
    assert done.code == 0, done
    left = {"orders:0": 100} if deletions == "follow" else {"orders:0": 100, "orders:1": 101}
    assert world.stored(group) == left

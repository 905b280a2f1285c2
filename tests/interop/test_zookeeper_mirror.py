"""A mirror of a real ZooKeeper: what it leaves alone, what it tells, and what it outlasts."""

from __future__ import annotations

import threading
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from interop.test_zookeeper_migration import _SEES_S_MAX as SEES_S_MAX
from interop.test_zookeeper_migration import (  # noqa: F401  Fixtures are found by their names.
    consumers,
    rows,
    server,
    world,
    zookeeper,
)
from ports import free_ports
from server_process import poll

if TYPE_CHECKING:
    from interop.test_zookeeper_migration import World

pytestmark = pytest.mark.zookeeper


def test_a_commit_here_is_not_overwritten_by_mirror_or_cutover(world: World) -> None:  # noqa: F811
    world.put(consumers("used", 1) | consumers("other", 1))
    world.make_plan()
    world.step("run", world.plan, "--execute")
    world.offsetd("commit", "used", "orders:0=500000")
    world.put({f"/consumers/{group}/offsets/orders/0": "700" for group in ("used", "other")})
    for step in (("mirror", "--once"), ("cutover",), ("cutover", "--execute")):
        refused = world.step(step[0], world.plan, *step[1:])
        assert refused.code == 3
        assert "group used: 1 offset committed here and far apart" in refused.stderr
    assert (world.stored("used"), world.stored("other")) == (
        {"orders:0": 500000},
        {"orders:0": 700},
    )


def test_deletions_are_told_by_every_step_and_may_be_followed(world: World) -> None:  # noqa: F811
    world.put(consumers("del-part") | consumers("del-all"))
    world.make_plan()
    world.step("run", world.plan, "--execute")
    world.client.delete("/consumers/del-part/offsets/orders/1")
    world.client.delete("/consumers/del-all", recursive=True)
    states = [row["state"] for row in rows(world.step("verify", world.plan, "-o", "jsonl"))]
    assert states == ["deleted"] * 4
    assert world.step("verify", world.plan).code == 1
    told = world.step("mirror", world.plan, "--once")
    assert told.code == 0
    assert "deleted: group del-part: 1 offset deleted in ZooKeeper, as orders:1" in told.stderr
    assert "deleted: group del-all: the group is deleted in ZooKeeper" in told.stderr
    refused = world.step("cutover", world.plan, "--execute")
    assert (refused.code, refused.stderr.count("say --deletions")) == (1, 2)
    assert world.step("mirror", world.plan, "--once", "--deletions", "follow").code == 0
    assert world.stored("del-part") == {"orders:0": 100, "orders:2": 102}
    assert world.stored("del-all") == {}
    assert world.step("cutover", world.plan, "--execute").code == 0
    assert world.step("rollback", world.plan, "--execute").code == 0
    assert not world.client.exists("/consumers/del-part/offsets/orders/1")
    assert not world.client.exists("/consumers/del-all/offsets")


def test_another_zookeeper_deletes_and_marks_nothing(world: World) -> None:  # noqa: F811
    world.put(consumers("there", 2))
    world.make_plan()
    world.step("run", world.plan, "--execute")
    before = world.stored("there")
    for step in (("mirror", "--once", "--deletions", "follow"), ("cutover", "--execute")):
        refused = world.step(step[0], world.plan, *step[1:], "--hosts", f"{world.hosts}/elsewhere")
        assert refused.code == 1
        assert "the plan is of" in refused.stderr
    world.client.delete("/consumers/there", recursive=True)
    refused = world.step("mirror", world.plan, "--once", "--deletions", "follow")
    assert (refused.code, "no group of the plan is in this ZooKeeper" in refused.stderr) == (
        1,
        True,
    )
    world.client.delete("/consumers", recursive=True)
    for step in (("mirror", "--once"), ("cutover", "--execute")):
        refused = world.step(step[0], world.plan, *step[1:])
        assert (refused.code, "is this the plan's ZooKeeper?" in refused.stderr) == (1, True)
    assert world.stored("there") == before


def test_what_is_deleted_here_is_not_cut_over_in_silence(world: World) -> None:  # noqa: F811
    world.put(consumers("gone-here", 2))
    world.make_plan()
    world.step("run", world.plan, "--execute")
    world.offsetd("groups", "offset-delete", "gone-here", "--topic", "orders:1")
    told = world.step("mirror", world.plan, "--once")
    assert "absent: group gone-here: 1 offset deleted here, as orders:1: 101" in told.stderr
    assert "zookeeper-lost" not in told.stderr
    refused = world.step("cutover", world.plan, "--execute")
    assert (refused.code, "say --absent store, or leave" in refused.stderr) == (1, True)
    assert world.step("cutover", world.plan, "--execute", "--absent", "store").code == 0
    assert world.stored("gone-here") == {"orders:0": 100, "orders:1": 101}


def test_a_mirror_tells_what_it_does_and_outlasts_a_session(world: World) -> None:  # noqa: F811
    world.put(consumers("tells", 1))
    world.make_plan()
    world.step("run", world.plan, "--execute")
    [port] = free_ports(1)
    arguments = ("--interval", "0.01", "--status-interval", "1")
    process = world.started("mirror", world.plan, *arguments, "--metrics", f"127.0.0.1:{port}")
    lines: list[str] = []
    assert process.stderr is not None
    reading = threading.Thread(
        target=lambda: lines.extend(map(bytes.decode, process.stderr or ())), daemon=True
    )
    reading.start()

    def has_told(text: str) -> None:
        poll(lambda: text in "".join(lines) or process.poll() is not None, SEES_S_MAX)
        assert text in "".join(lines), lines

    try:
        has_told(" following: 1 group followed, 0 stopped")
        scraped = scraped_at(port)
        assert 'offsetd_mirror_groups{state="followed"} 1.0' in scraped
        assert "offsetd_mirror_zookeeper_connected 1.0" in scraped
        has_told(" status: 1 group followed")
        world.zookeeper.kill()
        has_told(" zookeeper-lost")
        time.sleep(3)  # Longer than the session.
        assert "offsetd_mirror_zookeeper_connected 0.0" in scraped_at(port)
        world.zookeeper.start()
        has_told(" zookeeper-found")
        world.put({"/consumers/tells/offsets/orders/0": "900"})
        poll(lambda: world.stored("tells") == {"orders:0": 900}, SEES_S_MAX)
        world.offsetd("commit", "tells", "orders:0=500000")
        world.put({"/consumers/tells/offsets/orders/0": "901"})
        has_told(" stopped: group tells: 1 offset committed here and far apart")
        assert process.wait(SEES_S_MAX) == 1
    finally:
        process.kill()
        process.wait()


def scraped_at(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
    return text

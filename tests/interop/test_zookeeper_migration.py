"""The way off a real ZooKeeper, with the commands as users run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from cli_calls import Ended, offsetd_of
from interop.requirements import no_zookeeper
from interop.zookeeper_server import (
    ZooKeeperServer,
    ZooKeeperUnavailable,
    find_runtime,
    running_zookeeper,
)
from kazoo.retry import KazooRetry
from kazoo.security import make_acl
from offsetd_clients import OffsetClient
from offsetd_clients.migration.plan_file import Plan
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kazoo.client import KazooClient

pytestmark = [pytest.mark.zookeeper, pytest.mark.long(minutes=2)]

_COMMAND = "from offsetd_clients.cli.main import main; main()"
_SESSION = ("--session-timeout", "2")
_SEES_S_MAX = 60
_KILLS = 5 if os.environ.get("OFFSETD_NIGHTLY") else 1  # Of each step.


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    try:
        runtime = find_runtime()
    except ZooKeeperUnavailable as unavailable:
        no_zookeeper(str(unavailable))
    with running_zookeeper(runtime, tmp_path_factory.mktemp("zookeeper") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"offsets.topic.num.partitions": 4}
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", settings=settings) as process:
        yield process.wait_until_serving()


@attrs.frozen
class World:
    """A chroot of a test's own, a server, and a folder for plans."""

    zookeeper: ZooKeeperServer
    client: KazooClient
    chroot: str
    server: ServerProcess
    offsets: OffsetClient
    folder: Path
    offsetd: Callable[..., Ended]

    @property
    def hosts(self) -> str:
        return self.zookeeper.address + self.chroot

    @property
    def plan(self) -> str:
        return str(self.folder / "plan.jsonl")

    def put(self, nodes: dict[str, str]) -> None:
        """Also where the session has just ended with a server that was killed."""
        again = KazooRetry(max_tries=-1, deadline=_SEES_S_MAX)
        for path, value in nodes.items():
            again(self._put, path, value.encode())

    def _put(self, path: str, value: bytes) -> None:
        if self.client.exists(path):
            self.client.set(path, value)
        else:
            self.client.create(path, value, makepath=True)

    def step(self, *arguments: str) -> Ended:
        return self.offsetd("migrate", "zookeeper", *arguments, *_SESSION)

    def make_plan(self, *arguments: str) -> Ended:
        return self.step("plan", "--hosts", self.hosts, "--file", self.plan, *arguments)

    def stored(self, group_id: str) -> dict[str, int]:
        return {str(at): each.offset for at, each in self.offsets.fetch(group_id).items()}

    def started(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A step in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "migrate", "zookeeper", *arguments, *_SESSION],
            env={**os.environ, "OFFSETD_ADDRESS": self.server.address},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


@pytest.fixture
def world(
    request: pytest.FixtureRequest,
    zookeeper: ZooKeeperServer,
    server: ServerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    chroot = f"/{abs(hash(request.node.name))}"
    with zookeeper.client() as client:
        client.ensure_path(chroot)
    with zookeeper.client(chroot) as client, OffsetClient(server.address) as offsets:
        offsetd = offsetd_of(server.address, monkeypatch)
        yield World(zookeeper, client, chroot, server, offsets, tmp_path, offsetd)


def consumers(group: str, partitions: int = 3) -> dict[str, str]:
    return {
        f"/consumers/{group}/offsets/orders/{number}": str(100 + number)
        for number in range(partitions)
    }


def test_from_the_plan_to_the_cutover_and_back(world: World) -> None:
    world.put(consumers("whole-a") | consumers("whole-b"))
    assert world.make_plan("--rename", "whole-b=whole-c").code == 0
    assert "missing" in world.step("diff", world.plan).stdout
    assert world.step("run", world.plan).code == 0
    assert world.stored("whole-a") == {}
    assert world.step("run", world.plan, "--execute", "--reason", "off ZooKeeper").code == 0
    assert world.stored("whole-c") == {f"orders:{each}": 100 + each for each in range(3)}
    _, stat = world.client.get("/consumers/whole-a/offsets/orders/0")
    [first, *_] = world.offsets.fetch("whole-a").values()
    assert round(first.commit_time.timestamp() * 1000) == stat.mtime
    assert first.expire_time is None
    reasons = {each.reason for each in world.offsets.list_audit_events(group_id="whole-c")}
    assert reasons == {"off ZooKeeper"}
    assert world.step("verify", world.plan).code == 0

    world.put({"/consumers/whole-a/offsets/orders/0": "7"})  # A rewind.
    assert world.step("verify", world.plan).code == 1
    assert world.step("mirror", world.plan, "--once").code == 0
    assert world.stored("whole-a")["orders:0"] == 7
    assert world.step("verify", world.plan).code == 0

    world.client.create("/consumers/whole-a/ids/c-1", b"{}", ephemeral=True, makepath=True)
    refused = world.step("cutover", world.plan, "--execute")
    assert (refused.code, "alive" in refused.stderr) == (3, True)
    world.client.delete("/consumers/whole-a/ids/c-1")
    assert world.step("cutover", world.plan, "--execute").code == 0
    assert "it has moved" in world.step("plan", "--hosts", world.hosts).stderr

    world.offsetd("commit", "whole-a", "orders:0=500", "orders:9=1")
    assert world.step("rollback", world.plan, "--execute").code == 0
    assert world.client.get("/consumers/whole-a/offsets/orders/0")[0] == b"500"
    assert world.client.get("/consumers/whole-a/offsets/orders/9")[0] == b"1"
    assert world.client.get_children("/offsetd-migration/moved") == []


LAYOUTS: list[tuple[list[str], dict[str, str], dict[str, dict[str, int]]]] = [
    ([], {"/consumers/l-kafka/offsets/t/0": "5"}, {"l-kafka": {"t:0": 5}}),
    (
        ["--root", "/spark", "--last-processed"],
        {"/spark/l-spark/offsets/t/0": "5"},
        {"l-spark": {"t:0": 6}},
    ),
    (
        ["--layout", "storm", "--root", "/storm"],
        {
            "/storm/l-spout/partition_0": '{"offset":5,"partition":0,"topic":"t"}',
            "/storm/l-wild/u/partition_1": '{"offset":6,"partition":1,"topic":"u"}',
        },
        {"l-spout": {"t:0": 5}, "l-wild": {"u:1": 6}},
    ),
    (
        ["--layout", "trident"],
        {
            "/transactional/l-tx/user/partition_0/9": '{"offset":5,"nextOffset":9,"topic":"t"}',
            "/transactional/l-tx/user/partition_1/10": '{"offset":6,"nextOffset":9,"topic":"t"}',
            "/transactional/l-tx/coordinator/currtx": "10",
        },
        {"l-tx": {"t:0": 9, "t:1": 6}},
    ),
    (
        ["--layout", "trident-client"],
        {"/transactional/l-new/user/t@0/1": '{"firstOffset":5,"lastOffset":8}'},
        {"l-new": {"t:0": 9}},
    ),
    (
        ["--layout", "packed", "--root", "/packed", "--topic", "t"],
        {"/packed/l-packed": "0:5,1:6"},
        {"l-packed": {"t:0": 5, "t:1": 6}},
    ),
    (
        [
            "--layout",
            "regex",
            "--path-pattern",
            "/x/(?P<topic>.)/(?P<partition>.)",
            "--group",
            "l-x",
        ],
        {"/x/t/0": "5", "/x/u/1": "6"},
        {"l-x": {"t:0": 5, "u:1": 6}},
    ),
]


@pytest.mark.parametrize(("options", "nodes", "expected"), LAYOUTS)
def test_every_layout_is_moved_cut_over_and_written_back(
    world: World,
    options: list[str],
    nodes: dict[str, str],
    expected: dict[str, dict[str, int]],
) -> None:
    world.put(nodes)
    assert world.make_plan(*options).code == 0
    assert world.step("run", world.plan, "--execute").code == 0
    assert {group: world.stored(group) for group in expected} == expected
    assert world.step("cutover", world.plan, "--assume-stopped", "--execute").code == 0
    unfinished = "10" in nodes.values()
    moved = {group: dict.fromkeys(stored, 77) for group, stored in expected.items()}
    for group, stored in moved.items():
        if not unfinished:
            world.offsetd("commit", group, *(f"{at}={offset}" for at, offset in stored.items()))
    assert world.step("rollback", world.plan, "--execute").code == 0
    again = world.folder / "again.jsonl"
    assert world.step("plan", "--hosts", world.hosts, *options, "--file", str(again)).code == 0
    found = {
        group.group_id: {str(each.topic_partition): each.offset for each in group.offsets}
        for group in Plan.open(again).groups()
    }
    assert found == (expected if unfinished else moved)


def test_what_cannot_be_read_is_named_counted_and_kept_from_the_run(world: World) -> None:
    world.put(consumers("bad-good") | {"/consumers/bad-value/offsets/orders/0": "x"})
    world.put({"/consumers/bad-bytes/offsets/orders/1-0": "286894308"})
    secret = "/consumers/bad-secret/offsets/orders/0"
    world.client.ensure_path(secret.rpartition("/")[0])
    world.client.create(secret, b"5", acl=[make_acl("digest", "nobody:x", read=True)])
    planned = world.make_plan()
    assert planned.code == 3
    for named in ("orders/0: bad-value", "1-0: byte-position", f"{secret}: unreadable"):
        assert named in planned.stderr
    assert "3 problems" in planned.stderr
    ran = world.step("run", world.plan, "--execute")
    assert (ran.code, "3 groups refused" in ran.stderr) == (3, True)
    assert len(world.stored("bad-good")) == 3
    for group in ("bad-value", "bad-bytes", "bad-secret"):
        assert world.stored(group) == {}


def test_files_of_kafkas_export_tool_go_in_and_out(world: World) -> None:
    exported = world.folder / "exported"
    exported.write_text(
        "/consumers/f:1/offsets/orders/0:42\n\n/consumers/f:1/offsets/orders/1:43\n"
    )
    planned = world.step("plan", "--from-file", str(exported), "--file", world.plan)
    assert (planned.code, planned.stderr.count("problem")) == (0, 1)
    assert world.step("run", world.plan, "--execute").code == 0
    assert world.stored("f:1") == {"orders:0": 42, "orders:1": 43}
    assert world.step("verify", world.plan).code == 0
    out = world.folder / "out"
    world.offsetd("migrate", "zookeeper", "export", world.plan, "--here", "--file", str(out))
    assert out.read_text() == exported.read_text().replace("\n\n", "\n")
    exported.write_text("/consumers/f:1/offsets/orders/0:42\nnone\n")
    wrong = world.step("plan", "--from-file", str(exported))
    assert (wrong.code, f"{exported}:2" in wrong.stderr) == (3, True)


def test_a_mirror_follows_while_consumers_commit_and_ends_well(world: World) -> None:
    world.put(consumers("mirror-a"))
    world.make_plan()
    world.step("run", world.plan, "--execute")
    process = world.started("mirror", world.plan, "--interval", "0.01")
    try:
        for offset in (500, 20, 700):
            world.put({"/consumers/mirror-a/offsets/orders/1": str(offset)})
            poll(lambda: world.stored("mirror-a")["orders:1"] == offset, _SEES_S_MAX)  # noqa: B023
        busy = world.step("run", world.plan, "--execute")
        assert (busy.code, "another process" in busy.stderr) == (1, True)
        world.zookeeper.kill()
        world.zookeeper.start()
        world.put({"/consumers/mirror-a/offsets/orders/2": "900"})
        poll(
            lambda: world.stored("mirror-a")["orders:2"] == 900 or process.poll() is not None,
            _SEES_S_MAX,
        )
        if process.poll() is None:  # Its session may have ended with the server.
            process.send_signal(signal.SIGTERM)
            assert process.wait(_SEES_S_MAX) == 0
    finally:
        process.kill()
        process.communicate()
    assert world.step("mirror", world.plan, "--once").code == 0
    assert world.stored("mirror-a") == {"orders:0": 100, "orders:1": 700, "orders:2": 900}


def killed_once_begun(world: World, step: list[str]) -> bool:
    """Starts a step, and kills it as soon as it has written something that lasts."""
    part, journal = (world.folder / f"plan.jsonl.{end}" for end in ("part", "journal"))
    before = journal.stat().st_size if journal.exists() else 0

    def has_begun() -> bool:
        if step[0] == "plan":
            return part.exists()
        return journal.exists() and journal.stat().st_size > before + 500

    process = world.started(*step)
    poll(lambda: has_begun() or process.poll() is not None, _SEES_S_MAX)
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_killed_in_the_middle_of_each_step_and_repeated_all_is_moved(world: World) -> None:
    groups = [f"killed-{number:03}" for number in range(100)]
    world.client.ensure_path("/consumers")
    for group in groups:
        transaction = world.client.transaction()
        for folder in ("", "/offsets", "/offsets/orders"):
            transaction.create(f"/consumers/{group}{folder}")
        for path, value in consumers(group, 4).items():
            transaction.create(path, value.encode())
        transaction.commit()
    kills = 0
    for step in (
        ["plan", "--hosts", world.hosts, "--file", world.plan],
        ["run", world.plan, "--execute"],
        ["cutover", world.plan, "--execute"],
        ["rollback", world.plan, "--execute"],
        ["undo", world.plan, "--execute"],
    ):
        for _ in range(_KILLS):
            kills += killed_once_begun(world, step)
        if step[0] != "plan":
            assert {len(each) for each in world.offsets.fetch_many(groups).values()} <= {0, 4}
        ended = world.step(*step)
        assert ended.code == 0, ended.stderr
        expected = 0 if step[0] in ("plan", "undo") else 4
        stored = world.offsets.fetch_many(groups)
        assert {len(each) for each in stored.values()} == {expected}, step[0]
        marks = "/offsetd-migration/moved"
        marked = world.client.get_children(marks) if world.client.exists(marks) else []
        assert len(marked) == (len(groups) if step[0] == "cutover" else 0)
    assert kills > 0, "every step was quicker than its kill"


def test_a_server_that_dies_in_the_middle_leaves_whole_groups_and_the_run_goes_on(
    world: World, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [f"dies-{number}" for number in range(60)]
    for group in groups:
        world.put(consumers(group))
    world.make_plan()
    folder = tmp_path_factory.mktemp("dies") / "data"
    with ServerProcess(folder) as server:
        address = server.wait_until_serving().address
        environment = {**os.environ, "OFFSETD_ADDRESS": address}
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", _COMMAND, "migrate", "zookeeper", "run", world.plan),
                *("--execute", "--rate", "60", "--timeout", "5", *_SESSION),
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with OffsetClient(address) as offsets:
            # Two: then the first one was answered for, whatever becomes of the second.
            poll(lambda: _stored_count(offsets, groups) >= 2, _SEES_S_MAX)
        server.kill()
        _, said = process.communicate(timeout=_SEES_S_MAX)
        assert process.returncode == 3, said
        assert b"stopped" in said
    with ServerProcess(folder) as server:
        address = server.wait_until_serving().address
        offsetd = offsetd_of(address, monkeypatch)
        with OffsetClient(address) as offsets:
            assert {len(each) for each in offsets.fetch_many(groups).values()} == {0, 3}
            ended = offsetd("migrate", "zookeeper", "run", world.plan, "--execute", *_SESSION)
            assert ended.code == 0, ended.stderr
            assert {len(each) for each in offsets.fetch_many(groups).values()} == {3}


def test_a_zookeeper_that_dies_in_the_middle_ends_the_run_which_goes_on_later(
    world: World,
) -> None:
    groups = [f"lost-{number}" for number in range(90)]
    for group in groups:
        world.put(consumers(group, 1))
    world.make_plan()
    process = world.started("run", world.plan, "--execute", "--rate", "10")
    poll(lambda: _stored_count(world.offsets, groups) >= 2, _SEES_S_MAX)
    world.zookeeper.kill()
    _, said = process.communicate(timeout=_SEES_S_MAX)
    try:
        assert (process.returncode, b"ZooKeeper" in said) == (3, True), said
        assert 2 <= _stored_count(world.offsets, groups) < 90
        ended = world.step("cutover", world.plan, "--execute")
        assert (ended.code, "no ZooKeeper answers" in ended.stderr) == (1, True)
    finally:
        world.zookeeper.start()
    for step in ("run", "cutover"):
        assert world.step(step, world.plan, "--execute").code == 0
    assert _stored_count(world.offsets, groups) == 90


def _stored_count(offsets: OffsetClient, groups: list[str]) -> int:
    return sum(map(bool, offsets.fetch_many(groups).values()))


def test_one_migrator_at_a_time(world: World, tmp_path: Path) -> None:
    world.put(consumers("locked"))
    world.make_plan()
    other = str(tmp_path / "other.jsonl")
    assert world.step("plan", "--hosts", world.hosts, "--file", other).code == 0
    lock = world.client.Lock("/offsetd-migration/lock", "another")
    lock.acquire()
    refused = world.step("run", other, "--execute")
    assert (refused.code, "another is at work" in refused.stderr) == (1, True)
    lock.release()
    assert world.step("run", other, "--execute").code == 0


def test_a_zookeeper_that_is_not_there_is_one_line(world: World) -> None:
    began = time.monotonic()
    ended = world.offsetd(
        *("migrate", "zookeeper", "plan", "--hosts", "127.0.0.1:1", "--session-timeout", "0.5")
    )
    assert (ended.code, ended.stderr.count("\n")) == (1, 1)
    assert "no ZooKeeper answers at 127.0.0.1:1" in ended.stderr
    assert time.monotonic() - began < _SEES_S_MAX


def rows(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_rows_are_json_for_programs(world: World) -> None:
    world.put(consumers("json"))
    [planned] = rows(world.make_plan("-o", "jsonl"))
    assert (planned["source_group"], planned["offsets"], planned["owners"]) == ("json", 3, 0)
    states = [row["state"] for row in rows(world.step("diff", world.plan, "-o", "jsonl"))]
    assert states == ["missing"] * 3
    [ran] = rows(world.step("run", world.plan, "--execute", "-o", "jsonl"))
    assert (ran["outcome"], ran["offsets"], ran["problem"]) == ("migrated", 3, None)
    assert rows(world.step("diff", world.plan, "-o", "jsonl")) == []
    [followed] = rows(world.step("mirror", world.plan, "--once", "-o", "jsonl"))
    assert (followed["stored"], followed["problem"]) == (0, None)

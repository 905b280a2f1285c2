"""Groups move from a real cluster to offsetd, and back."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import Ended, offsetd_of
from confluent_kafka import Consumer
from interop.kafka_protocol import KafkaConnection, KafkaOffset
from interop.kafka_topic import KafkaTopic
from interop.killed_commands import killed_at
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_clients.migration.kafka.cluster import KafkaCluster
from patience import PATIENCE_SECONDS
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from interop.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=1)]

MOMENTS_MAX = 100
NUMBERS = count(1)
NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def broker(
    used_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    copy = used_broker.copy_to(tmp_path_factory.mktemp("moved") / "broker")
    with copy.running():
        yield copy


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker) -> KafkaTopic:
    """Offsets 10 to 100 in each of three partitions."""
    topic = KafkaTopic(broker.address, 3, name="moved")
    for partition in range(3):
        topic.produce(partition, range(100))
        topic.delete_before(partition, 10)
    return topic


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("offsets")) as process:
        yield process.wait_until_serving()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(server.address) as client:
        yield client


@pytest.fixture
def offsetd(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Calls `offsetd migrate kafka …`; rows come as JSON lines."""
    call = offsetd_of(server.address, monkeypatch)
    return lambda *arguments: call("migrate", "kafka", *map(str, arguments), "-o", "jsonl")


class Groups:
    """The groups of one test, at the cluster and here: their ids begin alike."""

    def __init__(self, broker: KafkaBroker, client: OffsetClient, topic: KafkaTopic) -> None:
        self.prefix = f"{topic.name}-{next(NUMBERS)}"
        self.pattern = f"{self.prefix}-.*"
        self.client = client
        self.topic = topic
        self.cluster = KafkaCluster({"bootstrap.servers": broker.address})

    def id(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def set_there(
        self, name: str, offsets: Mapping[int, int], *, leader_epoch: int | None = None
    ) -> None:
        to_commit = {
            self.topic.at(partition): OffsetToCommit(offset, leader_epoch=leader_epoch)
            for partition, offset in offsets.items()
        }
        self.cluster.set_offsets(self.id(name), to_commit)

    def set_here(self, name: str, offsets: Mapping[int, int]) -> None:
        here = {self.topic.at(partition): offset for partition, offset in offsets.items()}
        self.client.commit(self.id(name), here)

    def there(self, name: str) -> dict[int, int]:
        with KafkaConnection(self.topic.address) as connection:
            stored = connection.offsets(self.id(name))
        return {partition: each.offset for (_, partition), each in stored.items()}

    def here(self, name: str) -> dict[int, int]:
        stored = self.client.fetch(self.id(name))
        return {where.partition: each.offset for where, each in stored.items()}

    def member(self, name: str) -> Consumer:
        """Joined there, when this returns."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.topic.address,
                "group.id": self.id(name),
                "client.id": "still-there",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic.name])
        poll(lambda: consumer.poll(0.1) is None and consumer.assignment(), PATIENCE_SECONDS)
        return consumer


@pytest.fixture
def groups(broker: KafkaBroker, client: OffsetClient, topic: KafkaTopic) -> Groups:
    return Groups(broker, client, topic)


@pytest.fixture
def planned(groups: Groups, offsetd: Callable[..., Ended], tmp_path: Path) -> Callable[..., Path]:
    """Makes plans of the test's groups at the cluster, each in a file of its own."""
    numbers = count(1)

    def plan(*options: str) -> Path:
        file = tmp_path / f"plan-{next(numbers)}.jsonl"
        source = ("--bootstrap-servers", groups.topic.address, "--include", groups.pattern)
        done = offsetd("plan", "--file", file, *source, *options)
        assert done.code == 0, done.stderr
        return file

    return plan


def rows(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.stdout.splitlines()]


def states(ended: Ended) -> dict[int, str]:
    return {row["partition"]: row["state"] for row in rows(ended)}


def test_groups_come_here_with_their_leader_epochs_and_then_verify_finds_no_difference(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path]
) -> None:
    groups.set_there("a", {0: 42, 1: 43}, leader_epoch=0)
    groups.set_there("b", {2: 44})
    plan = planned()
    assert states(offsetd("diff", plan)) == {0: "missing", 1: "missing", 2: "missing"}
    tried = offsetd("run", plan)
    assert (tried.code, groups.here("a")) == (0, {})
    assert [row["outcome"] for row in rows(tried)] == ["would-migrate"] * 2
    done = offsetd("run", plan, "--execute")
    assert (done.code, [row["outcome"] for row in rows(done)]) == (0, ["migrated"] * 2), done.stderr
    assert (groups.here("a"), groups.here("b")) == ({0: 42, 1: 43}, {2: 44})
    stored = groups.client.fetch(groups.id("a"))[groups.topic.at(0)]
    assert (stored.leader_epoch, stored.metadata) == (0, "")
    assert groups.client.get_group(groups.id("a")).retention == "never"
    assert offsetd("verify", plan).code == 0
    again = offsetd("run", plan, "--execute")
    assert (again.code, [row["outcome"] for row in rows(again)]) == (0, ["already"] * 2)


def test_what_changes_at_the_cluster_is_seen_and_asks_for_a_new_plan(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path]
) -> None:
    groups.set_there("a", {0: 42, 1: 43})
    stale = planned()
    groups.set_there("a", {0: 50})
    refused = offsetd("run", stale, "--execute")
    assert (refused.code, groups.here("a")) == (1, {})
    assert "plan it again: moved:0 is 50 there by now" in refused.stderr
    plan = planned()
    assert offsetd("run", plan, "--execute").code == 0
    groups.set_there("a", {0: 60, 2: 70})
    assert states(offsetd("diff", plan, "--now", "--all")) == {
        0: "behind",
        1: "equal",
        2: "missing",
    }
    verified = offsetd("verify", plan)
    assert (verified.code, states(verified)) == (1, {0: "behind", 2: "missing"})
    plan = planned()
    refused = offsetd("run", plan, "--execute")
    assert (refused.code, groups.here("a")) == (1, {0: 50, 1: 43})
    assert offsetd("run", plan, "--execute", "--overwrite", "behind").code == 0
    assert groups.here("a") == {0: 60, 1: 43, 2: 70}
    assert offsetd("verify", plan).code == 0


def test_a_rollback_sets_the_cluster_to_what_is_here_and_touches_nothing_that_moved_there(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path]
) -> None:
    for name in ("a", "b", "c"):
        groups.set_there(name, {0: 42, 1: 43})
    plan = planned()
    assert offsetd("run", plan, "--execute").code == 0
    groups.set_here("a", {0: 50, 2: 51})
    groups.set_here("b", {0: 52})
    groups.set_there("b", {0: 53})
    tried = offsetd("rollback", plan)
    assert (tried.code, groups.there("a")) == (3, {0: 42, 1: 43})
    done = offsetd("rollback", plan, "--execute")
    assert done.code == 3
    assert {row["group"]: row["outcome"] for row in rows(done)} == {
        groups.id("a"): "rolled-back",
        groups.id("b"): "refused",
        groups.id("c"): "already",
    }
    assert "moved:0 is 53 there, not 42 as planned" in done.stderr
    assert groups.there("a") == {0: 50, 1: 43, 2: 51}
    assert groups.there("b") == {0: 53, 1: 43}
    assert offsetd("rollback", plan, "--execute", "--overwrite").code == 0
    assert groups.there("b") == {0: 52, 1: 43}
    assert groups.here("a") == {0: 50, 1: 43, 2: 51}


def test_undo_takes_back_here_what_was_moved_and_the_cluster_stays_as_it_is(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path]
) -> None:
    groups.set_there("a", {0: 42})
    groups.set_here("a", {1: 7})
    plan = planned()
    assert offsetd("run", plan, "--execute").code == 0
    assert groups.here("a") == {0: 42, 1: 7}
    assert offsetd("undo", plan, "--execute").code == 0
    assert (groups.here("a"), groups.there("a")) == ({1: 7}, {0: 42})


def test_a_group_with_members_is_named_and_refused_on_the_way_here_and_back(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path]
) -> None:
    groups.set_there("a", {0: 42})
    plan = planned()
    with closing(groups.member("a")):
        refused = offsetd("run", plan, "--execute")
        assert (refused.code, groups.here("a")) == (1, {})
        assert "it has members: still-there at" in refused.stderr
        assert offsetd("run", plan, "--execute", "--force").code == 0
        groups.set_here("a", {0: 50})
        refused = offsetd("rollback", plan, "--execute")
        assert (refused.code, groups.there("a")) == (1, {0: 42})
        assert "it has members at" in refused.stderr
    assert offsetd("rollback", plan, "--execute").code == 0
    assert groups.there("a") == {0: 50}


def test_a_rollback_is_refused_while_consumers_are_alive_here(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path]
) -> None:
    groups.set_there("a", {0: 42})
    plan = planned()
    assert offsetd("run", plan, "--execute").code == 0
    lease = groups.client.acquire_group(groups.id("a"), "the-writer")
    groups.client.commit(groups.id("a"), {groups.topic.at(0): 43}, epoch=lease.epoch)
    refused = offsetd("rollback", plan, "--execute")
    assert (refused.code, groups.there("a")) == (1, {0: 42})
    assert "the-writer holds its lease here" in refused.stderr
    assert offsetd("rollback", plan, "--execute", "--force").code == 0
    assert groups.there("a") == {0: 43}


@pytest.mark.parametrize("offset", [9, 101])
def test_an_offset_that_its_partition_has_not_is_refused_on_both_ways(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path], offset: int
) -> None:
    groups.set_there("bad", {0: offset})
    groups.set_there("good", {0: 10, 1: 100})
    plan = planned()
    outside = [row for row in rows(offsetd("diff", plan)) if row["state"] == "out-of-bounds"]
    assert [(row["group"], row["offset"]) for row in outside] == [(groups.id("bad"), offset)]
    done = offsetd("run", plan, "--execute", "--force")
    assert (done.code, groups.here("bad"), groups.here("good")) == (3, {}, {0: 10, 1: 100})
    assert f"moved:0 has no {offset}: it has 10 to 100" in done.stderr
    groups.set_here("good", {0: offset})
    refused = offsetd("rollback", plan, "--execute")
    assert (refused.code, groups.there("good")) == (3, {0: 10, 1: 100})
    assert f"moved:0 has no {offset}: it has 10 to 100" in refused.stderr


def test_offsets_of_a_topic_that_is_gone_are_named(
    broker: KafkaBroker,
    groups: Groups,
    offsetd: Callable[..., Ended],
    planned: Callable[..., Path],
) -> None:
    gone = KafkaTopic(broker.address, 1)
    groups.cluster.set_offsets(groups.id("a"), {gone.at(0): OffsetToCommit(0)})
    plan = planned()
    # Kafka forgets the offsets of a topic that is deleted, so the plan is what is left of them.
    gone.delete()
    refused = offsetd("run", plan, "--execute", "--force")
    assert refused.code == 1
    assert f"{gone.name}:0 is not there" in refused.stderr


def test_metadata_is_told_of_and_taken_only_where_that_is_asked_for(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path], tmp_path: Path
) -> None:
    groups.cluster.set_offsets(
        groups.id("a"), {groups.topic.at(0): OffsetToCommit(42, metadata="host-7")}
    )
    source = ("--bootstrap-servers", groups.topic.address, "--include", groups.pattern)
    told = offsetd("plan", *source)
    assert (told.code, "1 offset has metadata, which is left out" in told.stderr) == (0, True)
    assert offsetd("run", planned("--metadata"), "--execute").code == 0
    assert groups.client.fetch(groups.id("a"))[groups.topic.at(0)].metadata == "host-7"


def test_a_cluster_that_does_not_answer_is_named_and_nothing_is_left_behind(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., Path], tmp_path: Path
) -> None:
    there = ("--bootstrap-servers", NOWHERE, "--kafka-timeout", "1")
    ended = offsetd("plan", "--file", tmp_path / "none.jsonl", *there)
    assert (ended.code, ended.stdout) == (1, "")
    assert NOWHERE in ended.stderr
    assert list(tmp_path.iterdir()) == []
    groups.set_there("a", {0: 42})
    plan = planned()
    for command in ("diff", "run", "verify", "rollback"):
        options = ("--execute",) if command in ("run", "rollback") else ("--now",)
        ended = offsetd(command, plan, *there, *(() if command == "verify" else options))
        assert ended.code == 1, ended
        assert NOWHERE in ended.stderr, command
    assert groups.here("a") == {}


def test_librdkafkas_settings_come_from_a_file(
    groups: Groups, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    groups.set_there("a", {0: 42})
    config = tmp_path / "client.properties"
    config.write_text(f"# How to get in\nbootstrap.servers={groups.topic.address}\nlog_level = 0\n")
    plan = tmp_path / "plan.jsonl"
    chosen = ("--include", groups.pattern, "--command-config", config)
    assert offsetd("plan", "--file", plan, *chosen).code == 0
    assert "client.properties" not in plan.read_text()
    config.write_text("no.such.setting=1\n")
    ended = offsetd("verify", plan, "--command-config", config)
    assert (ended.code, "no.such.setting" in ended.stderr) == (1, True)


def test_groups_that_were_born_here_go_to_a_cluster_where_nothing_else_is(
    groups: Groups, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    for name in ("new", "taken", "outside"):
        groups.set_here(name, {0: 42, 1: 43})
    groups.set_here("outside", {0: 500})
    groups.set_there("taken", {0: 41})
    plan = tmp_path / "plan.jsonl"
    rename = f"{groups.id('new')}={groups.id('renamed')}"
    source = ("--from-here", "--include", groups.pattern, "--rename", rename)
    assert offsetd("plan", "--file", plan, *source).code == 0
    kafka = ("--bootstrap-servers", groups.topic.address)
    assert offsetd("run", plan, "--execute").code == 1  # Which cluster?
    done = offsetd("run", plan, "--execute", *kafka)
    assert done.code == 3
    assert {row["source_group"]: row["outcome"] for row in rows(done)} == {
        groups.id("new"): "migrated",
        groups.id("taken"): "refused",
        groups.id("outside"): "refused",
    }
    assert groups.there("renamed") == {0: 42, 1: 43}
    assert (groups.there("taken"), groups.there("outside"), groups.there("new")) == (
        {0: 41},
        {},
        {},
    )
    verified = offsetd("verify", plan, *kafka)
    assert verified.code == 1
    assert {row["group"] for row in rows(verified)} == {groups.id("taken"), groups.id("outside")}
    assert offsetd("rollback", plan, *kafka).code == 1
    assert offsetd("undo", plan).code == 1


STEPS = {"plan": ("plan",), "run": ("run", "--execute"), "rollback": ("rollback", "--execute")}


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_moment_and_run_again_a_step_ends_as_if_it_had_not_been(
    groups: Groups,
    server: ServerProcess,
    offsetd: Callable[..., Ended],
    tmp_path: Path,
    step: str,
) -> None:
    for moment in range(1, MOMENTS_MAX):
        folder = tmp_path / str(moment)
        folder.mkdir()
        names = [f"{moment}-{name}" for name in "ab"]
        for name in names:
            groups.set_there(name, {0: 42, 1: 43})
        calls = _calls(groups, moment, folder / "plan.jsonl")
        was_killed = False
        for name, call in calls.items():
            if name == step:
                was_killed = killed_at(moment, server.address, "migrate", "kafka", *call)
            if name != step or was_killed:
                done = offsetd(*call)
                assert done.code == 0, (moment, name, done)
            if name == "run":
                assert [groups.here(each) for each in names] == [{0: 42, 1: 43}] * 2, moment
                for each in names:
                    groups.set_here(each, {0: 50})
        assert [groups.there(each) for each in names] == [{0: 50, 1: 43}] * 2, moment
        left = {path.name for path in folder.iterdir()}
        assert left == {"plan.jsonl", "plan.jsonl.journal"}, moment
        if not was_killed:
            assert moment > 1, "it was never killed"
            return
    raise AssertionError("it never came to its end")


def _calls(groups: Groups, moment: int, plan: Path) -> dict[str, tuple[str, ...]]:
    chosen = ("--include", f"{groups.prefix}-{moment}-.*")
    source = ("--bootstrap-servers", groups.topic.address)
    return {
        "plan": ("plan", "--file", str(plan), *chosen, *source),
        "run": ("run", str(plan), "--execute"),
        "rollback": ("rollback", str(plan), "--execute"),
    }


def test_copied_folders_come_here_with_times_and_metadata_and_without_who_was_alive(
    offsetd: Callable[..., Ended], client: OffsetClient, golden: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.jsonl"
    planned = offsetd("plan", "--file", plan, "--folder", golden / "data")
    assert planned.code == 0, planned.stderr
    done = offsetd("run", plan, "--execute")
    assert done.code == 3
    refused = {row["group"]: row["problem"] for row in rows(done) if row["outcome"] == "refused"}
    assert refused == {"static-workers": "it had members, when it was copied"}
    answers = json.loads((golden / "answers.json").read_text())["offsets"]
    for group_id, answered in answers.items():
        if not answered or group_id in refused:
            continue
        stored = client.fetch(group_id)
        assert {
            (each["topic"], each["partition"]): (each["offset"], each["metadata"])
            for each in answered
        } == {
            (where.topic, where.partition): (each.offset, each.metadata.partition("\0")[0])
            for where, each in stored.items()
        }
    when = client.fetch("classic-workers")[TopicPartition("orders", 0)].commit_time
    assert when == datetime.fromisoformat("2026-11-20T21:06:24.148+00:00")
    assert offsetd("verify", plan).code == 1
    assert offsetd("run", plan, "--execute", "--force").code == 0
    assert offsetd("verify", plan).code == 0


def test_a_damaged_folder_is_named_and_the_groups_of_others_come_all_the_same(
    offsetd: Callable[..., Ended], golden: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    for name in ("__consumer_offsets-4", "__consumer_offsets-5"):
        log = f"{0:020d}.log"
        (data / name).mkdir(parents=True)
        content = (golden / "data" / name / log).read_bytes()
        (data / name / log).write_bytes(content[: -1 if name.endswith("5") else None])
    ended = offsetd("plan", "--file", tmp_path / "plan.jsonl", "--folder", data)
    assert ended.code == 3
    assert "__consumer_offsets-5" in ended.stderr
    assert [row["source_group"] for row in rows(ended) if row["source_group"]]


def test_a_group_whose_metadata_librdkafka_cannot_read_keeps_no_other_from_moving(
    groups: Groups, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    where = ("moved", 0)
    with KafkaConnection(groups.topic.address) as connection:
        for place in range(20):
            offset = KafkaOffset(offset=42, leader_epoch=None, metadata="a" * (place % 4 + 1))
            assert connection.commit(groups.id(f"java-{place}"), {where: offset})
    groups.set_there("ours", {0: 42})
    plan = tmp_path / "plan.jsonl"
    chosen = ("--bootstrap-servers", groups.topic.address, "--include", groups.pattern)
    offsetd("plan", "--file", plan, *chosen)
    done = offsetd("run", plan, "--execute")
    outcomes = {row["group"]: row["outcome"] for row in rows(done)}
    assert outcomes[groups.id("ours")] == "migrated"
    assert len(outcomes) == 21
    # Which of the others can be read is chance; what is refused is refused as a whole.
    for group_id, outcome in outcomes.items():
        here = groups.here(group_id.removeprefix(f"{groups.prefix}-"))
        assert here == ({0: 42} if outcome == "migrated" else {}), group_id
    refused = [group_id for group_id, outcome in outcomes.items() if outcome == "refused"]
    assert (done.code, all(each in done.stderr for each in refused)) == (3 * bool(refused), True)

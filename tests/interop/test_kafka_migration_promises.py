"""What the guide "Groups from Kafka here, and back" promises, beside its steps and what moves."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

import pytest
from cli_calls import Ended, offsetd_of
from interop.kafka_protocol import KafkaConnection
from interop.kafka_topic import KafkaTopic
from interop.test_migrate_kafka import Groups, rows, states
from offsetd_clients import OffsetClient
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interop.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=1)]

promised = promised_by("docs/guides/migration-from-kafka.md")


@pytest.fixture(scope="module")
def broker(
    used_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    copy = used_broker.copy_to(tmp_path_factory.mktemp("promised") / "broker")
    with copy.running():
        yield copy


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker) -> KafkaTopic:
    """Offsets 0 to 100 in each of three partitions."""
    topic = KafkaTopic(broker.address, 3, name="promised")
    for partition in range(3):
        topic.produce(partition, range(100))
    return topic


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OffsetClient]:
    folder = tmp_path_factory.mktemp("offsets")
    settings = {"group.initial.rebalance.delay.ms": 0}
    with ServerProcess(folder, settings=settings) as server, OffsetClient(server.address) as client:
        server.wait_until_serving()
        yield client


@pytest.fixture
def groups(broker: KafkaBroker, client: OffsetClient, topic: KafkaTopic) -> Groups:
    return Groups(broker, client, topic)


@pytest.fixture
def offsetd(
    client: OffsetClient, topic: KafkaTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """Calls `offsetd migrate kafka …`; rows come as JSON lines."""
    call = offsetd_of(client.address, monkeypatch)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: call("migrate", "kafka", *map(str, arguments), "-o", "jsonl")


@pytest.fixture
def planned(groups: Groups, offsetd: Callable[..., Ended]) -> Callable[..., str]:
    """Makes plans of the test's groups at the cluster, each in a file of its own."""
    numbers = count(1)

    def plan(*options: str) -> str:
        file = f"plan-{next(numbers)}.jsonl"
        chosen = () if "--include" in options else ("--include", groups.pattern)
        there = ("--bootstrap-servers", groups.topic.address)
        done = offsetd("plan", "--file", file, *there, *chosen, *options)
        assert done.code == 0, done.stderr
        return file

    return plan


def moved(groups: Groups, offsetd: Callable[..., Ended], plan: str) -> None:
    done = offsetd("run", plan, "--execute")
    assert done.code == 0, done.stderr


def delete_there(groups: Groups, broker: KafkaBroker, name: str, partition: int) -> None:
    """As `kafka-consumer-groups.sh --delete-offsets` does."""
    with KafkaConnection(broker.address) as connection:
        connection.delete_offset(groups.id(name), groups.topic.name, partition)


@promised(
    "`verify` compares with the cluster as it is now (`--as-planned`: with the plan), and exits "
    "with 1 if something differs.",
    "An offset that is stored here, but that the cluster no longer has, is `deleted`.",
    "With `--allow-ahead`: - `deleted` offsets are printed and counted, but they are not failures",
    "larger offsets here are not failures either. The last line counts them separately (`0 "
    "differ, 1 ahead here`).",
)
def test_what_the_cluster_has_lost_since_the_plan_is_told(
    broker: KafkaBroker,
    groups: Groups,
    offsetd: Callable[..., Ended],
    planned: Callable[..., str],
) -> None:
    groups.set_there("part", {0: 42, 1: 43})
    groups.set_there("whole", {0: 44})
    plan = planned()
    moved(groups, offsetd, plan)
    assert offsetd("verify", plan).code == 0
    delete_there(groups, broker, "part", 1)
    broker.delete_group(groups.id("whole"))
    told = offsetd("verify", plan)
    lost = {(groups.id("part"), 1, "deleted"), (groups.id("whole"), 0, "deleted")}
    assert {(row["group"], row["partition"], row["state"]) for row in rows(told)} == lost
    assert (told.code, "2 differ" in told.stderr) == (1, True), told.stderr
    allowed = offsetd("verify", plan, "--allow-ahead")
    assert {(row["group"], row["partition"], row["state"]) for row in rows(allowed)} == lost
    assert (allowed.code, "0 differ" in allowed.stderr) == (0, True), allowed.stderr
    assert "2 deleted" in allowed.stderr
    assert offsetd("verify", plan, "--as-planned").code == 0
    groups.set_here("part", {0: 50})
    assert offsetd("verify", plan, "--as-planned").code == 1
    ahead = offsetd("verify", plan, "--as-planned", "--allow-ahead")
    assert (ahead.code, "0 differ, 1 ahead here" in ahead.stderr) == (0, True), ahead.stderr
    # What was stored stays, whatever the cluster has lost.
    assert (groups.here("part"), groups.here("whole")) == ({0: 50, 1: 43}, {0: 44})


@promised(
    "whose offsets there differ from the plan (make a new plan; `--force` moves them all the same)"
)
def test_a_group_that_the_cluster_has_lost_since_the_plan_is_moved_by_force_only(
    broker: KafkaBroker,
    groups: Groups,
    offsetd: Callable[..., Ended],
    planned: Callable[..., str],
) -> None:
    groups.set_there("part", {0: 42, 1: 43})
    groups.set_there("whole", {0: 44})
    plan = planned()
    delete_there(groups, broker, "part", 1)
    broker.delete_group(groups.id("whole"))
    told = offsetd("run", plan, "--execute")
    assert (told.code, groups.here("part"), groups.here("whole")) == (1, {}, {}), told
    assert {row["outcome"] for row in rows(told)} == {"refused"}
    assert offsetd("run", plan, "--execute", "--force").code == 0
    assert (groups.here("part"), groups.here("whole")) == ({0: 42, 1: 43}, {0: 44})


@promised(
    "These groups and offsets are refused and named:",
    "groups that have other offsets here (`--overwrite behind`, `ahead`, `conflict`)",
)
@pytest.mark.parametrize(
    ("here", "state"),
    [({0: 41}, "behind"), ({0: 43}, "ahead"), ({0: 41, 1: 50}, "behind,ahead")],
)
def test_other_offsets_here_are_overwritten_only_as_it_is_allowed(
    groups: Groups,
    offsetd: Callable[..., Ended],
    planned: Callable[..., str],
    here: dict[int, int],
    state: str,
) -> None:
    groups.set_there("a", {0: 42, 1: 43})
    groups.set_here("a", here)
    plan = planned()
    wanted = state.split(",")
    for allowed in ((), *((each,) for each in ("behind", "ahead", "conflict"))):
        if set(allowed) >= set(wanted):
            continue
        options = [word for each in allowed for word in ("--overwrite", each)]
        refused = offsetd("run", plan, "--execute", *options)
        assert (refused.code, groups.here("a")) == (1, here), (allowed, refused)
        assert groups.id("a") in refused.stderr
    options = [word for each in wanted for word in ("--overwrite", each)]
    assert offsetd("run", plan, "--execute", *options).code == 0
    assert groups.here("a") == {0: 42, 1: 43}


@promised("`conflict` (another leader epoch or other metadata)")
def test_another_leader_epoch_is_a_conflict(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., str]
) -> None:
    groups.set_there("a", {0: 42}, leader_epoch=0)
    groups.set_here("a", {0: 42})
    plan = planned()
    assert states(offsetd("diff", plan)) == {0: "conflict"}
    assert offsetd("run", plan, "--execute").code == 1
    assert offsetd("run", plan, "--execute", "--overwrite", "conflict").code == 0
    assert groups.client.fetch(groups.id("a"))[groups.topic.at(0)].leader_epoch == 0


@promised(
    "are regular expressions that must match the whole name. `--rename OLD=NEW` gives a group "
    "another id here.",
    "The plan is [a file with a checksum]",
)
def test_only_whole_names_are_chosen_and_a_changed_plan_is_refused(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., str], tmp_path: Path
) -> None:
    for name in ("a", "ab", "b"):
        groups.set_there(name, {0: 42, 1: 43})
    plan = planned(
        *("--include", groups.id("a"), "--include", groups.id("b.*")),
        *("--rename", f"{groups.id('a')}={groups.id('new')}"),
    )
    moved(groups, offsetd, plan)
    here = {name: groups.here(name) for name in ("a", "ab", "b", "new")}
    assert here == {"a": {}, "ab": {}, "b": {0: 42, 1: 43}, "new": {0: 42, 1: 43}}
    file = tmp_path / plan
    file.write_text(file.read_text().replace("43", "44"))
    for step in ("diff", "verify", "rollback", "undo"):
        assert offsetd(step, plan).code == 1, step


@promised(
    "Offsets of migrated groups do not expire here",
    "`offsetd groups update GROUP --retention default` gives it the server's default retention "
    "(`run --retention` sets other values).",
    "Groups that have a retention of their own here keep it",
)
def test_moved_groups_are_kept_and_those_with_a_retention_keep_that(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., str]
) -> None:
    groups.set_there("new", {0: 42})
    groups.set_there("own", {0: 42})
    groups.set_here("own", {1: 1})
    groups.client.update_group(groups.id("own"), retention=timedelta(days=90))
    moved(groups, offsetd, planned())
    [stored] = groups.client.fetch(groups.id("new")).values()
    assert (stored.expire_time, groups.client.get_group(groups.id("new")).retention) == (
        None,
        "never",
    )
    assert groups.client.get_group(groups.id("own")).retention == timedelta(days=90)


@promised(
    "These groups are refused: - groups that no run of the plan has moved here, or whose run was "
    "undone",
    "`rollback` sets the groups at the cluster to the offsets that are stored here now",
    "The offsets here stay.",
)
def test_what_no_run_has_moved_is_not_rolled_back(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., str]
) -> None:
    groups.set_there("a", {0: 42})
    plan = planned()
    groups.set_here("a", {0: 50})
    for options in ((), ("--force",), ("--overwrite",)):
        refused = offsetd("rollback", plan, "--execute", *options)
        assert (refused.code, groups.there("a")) == (1, {0: 42}), (options, refused)
    groups.client.delete_group(groups.id("a"))
    moved(groups, offsetd, plan)
    assert offsetd("undo", plan, "--execute").code == 0
    groups.set_here("a", {0: 50})
    for options in ((), ("--force",), ("--overwrite",)):
        refused = offsetd("rollback", plan, "--execute", *options)
        assert (refused.code, groups.there("a")) == (1, {0: 42}), (options, refused)
    assert groups.here("a") == {0: 50}


@promised(
    "A group is refused whole if somebody has committed to it since (to any of its partitions), "
    "or if it has members or a lease here."
)
@pytest.mark.parametrize("use", ["the same", "another", "lease"])
def test_a_group_that_is_in_use_is_not_undone(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., str], use: str
) -> None:
    groups.set_there("a", {0: 42, 1: 43})
    plan = planned()
    moved(groups, offsetd, plan)
    if use == "lease":
        groups.client.acquire_group(groups.id("a"), "host-1")
    else:
        groups.set_here("a", {0 if use == "the same" else 2: 44})
    before = groups.here("a")
    refused = offsetd("undo", plan, "--execute")
    assert (refused.code, groups.here("a")) == (1, before), refused


@promised(
    "A group is refused if it has members here, if its lease is held, or if its offsets differ "
    "from the plan (make a new plan; `--force` moves the planned offsets all the same)."
)
@pytest.mark.parametrize("use", ["lease", "moved"])
def test_groups_that_were_born_here_and_are_in_use_stay(
    groups: Groups, offsetd: Callable[..., Ended], use: str
) -> None:
    groups.set_here("a", {0: 42})
    done = offsetd("plan", "--from-here", "--include", groups.pattern, "--file", "there.jsonl")
    assert done.code == 0, done
    if use == "lease":
        groups.client.acquire_group(groups.id("a"), "host-1")
    else:
        groups.set_here("a", {0: 50})
    run = ("run", "there.jsonl", "--bootstrap-servers", groups.topic.address, "--execute")
    refused = offsetd(*run)
    assert (refused.code, groups.there("a")) == (1, {}), refused
    assert offsetd(*run, "--force").code == 0
    assert groups.there("a") == {0: 42}


@promised(
    "If a broker does not answer, there is no plan.",
    "Every step is dry until you add `--execute`.",
)
def test_dry_steps_change_nothing_here_or_there(
    groups: Groups, offsetd: Callable[..., Ended], planned: Callable[..., str]
) -> None:
    groups.set_there("a", {0: 42})
    plan = planned()
    for step in ("diff", "run", "verify"):
        offsetd(step, plan)
        assert groups.here("a") == {}, step
    moved(groups, offsetd, plan)
    groups.set_here("a", {0: 50})
    for step in ("rollback", "undo"):
        offsetd(step, plan)
        assert (groups.here("a"), groups.there("a")) == ({0: 50}, {0: 42}), step

"""offsetd_clients.migration.kafka.cluster: what is asked of librdkafka's admin client, and how."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from offsetd_clients import Bounds, OffsetToCommit, TopicPartition
from offsetd_clients.migration.kafka import cluster as module
from offsetd_clients.migration.kafka.cluster import (
    CALLS_MAX,
    ClusterFailed,
    ClusterOffset,
    KafkaCluster,
)

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
SILENT = KafkaException(KafkaError(KafkaError._TIMED_OUT))
FORBIDDEN = KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
LOADING = KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))


def answered(answer: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
    return future


class FakeAdmin:
    """Answers by group, with a list of partitions or an error; members by group."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.groups: dict[str, Any] = {}
        self.unknown: dict[str, Exception] = {}
        self.members: dict[str, list[Any]] = {}
        self.states: dict[str, ConsumerGroupState] = {}
        self.listing_errors: list[KafkaError] = []
        self.bounds: dict[TopicPartition, Any] = {}
        self.asked_for_offsets: list[str] = []
        self.described_at_once = 0
        self.unread_tries: dict[str, int] = {}
        self.written: list[KafkaTopicPartition] = []

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        valid = [SimpleNamespace(group_id=each) for each in self.groups]
        return answered(SimpleNamespace(valid=valid, errors=self.listing_errors))

    def describe_cluster(self, **_: Any) -> Future[Any]:
        return answered(None)

    def describe_consumer_groups(self, group_ids: list[str], **_: Any) -> dict[str, Future[Any]]:
        self.described_at_once = max(self.described_at_once, len(group_ids))
        return {
            each: answered(self.unknown.get(each) or self._described(each)) for each in group_ids
        }

    def _described(self, group_id: str) -> Any:
        members = self.members.get(group_id, [])
        state = self.states.get(group_id, ConsumerGroupState.EMPTY)
        return SimpleNamespace(members=members, state=state)

    def list_consumer_group_offsets(self, requests: list[Any], **_: Any) -> dict[str, Future[Any]]:
        [request] = requests
        self.asked_for_offsets.append(request.group_id)
        if self.unread_tries.get(request.group_id, 0) > 0:
            self.unread_tries[request.group_id] -= 1
            error = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "chance")
            return {request.group_id: answered(error)}
        found = self.groups.get(request.group_id, [])
        if not isinstance(found, Exception):
            found = SimpleNamespace(topic_partitions=found)
        return {request.group_id: answered(found)}

    def alter_consumer_group_offsets(self, requests: list[Any], **_: Any) -> dict[str, Future[Any]]:
        [request] = requests
        self.written += request.topic_partitions
        return {request.group_id: answered(SimpleNamespace(topic_partitions=self.written))}

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        def answer(at: KafkaTopicPartition, spec: Any) -> Any:
            found = self.bounds[TopicPartition(at.topic, at.partition)]
            if isinstance(found, Exception):
                return found
            return SimpleNamespace(offset=found[spec is module._LATEST])

        return {at: answered(answer(at, spec)) for at, spec in wanted.items()}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin({})
    monkeypatch.setattr(module, "AdminClient", lambda _config: fake)
    return fake


@pytest.fixture
def cluster(admin: FakeAdmin) -> KafkaCluster:
    return KafkaCluster({"bootstrap.servers": "kafka:9092"})


def stored(partition: int, offset: int, metadata: str = "") -> KafkaTopicPartition:
    return KafkaTopicPartition("t", partition, offset, metadata)


def test_groups_are_asked_for_so_many_at_once_and_no_more(
    admin: FakeAdmin, cluster: KafkaCluster
) -> None:
    admin.groups = {f"g{number:03}": [stored(0, number)] for number in range(2 * CALLS_MAX + 1)}
    group_ids = cluster.group_ids()
    found = list(cluster.read(group_ids))
    assert [each.group_id for each in found] == group_ids
    assert [each.offsets[0].offset for each in found] == list(range(2 * CALLS_MAX + 1))
    assert admin.described_at_once == CALLS_MAX


def test_a_group_has_its_offsets_in_order_and_without_those_that_are_none(
    admin: FakeAdmin, cluster: KafkaCluster
) -> None:
    admin.groups = {"g": [stored(1, 5, "m"), stored(0, 7), stored(2, -1001)]}
    [group] = cluster.read(["g"])
    assert group.offsets == (
        ClusterOffset(topic_partition=P0, offset=7, leader_epoch=None, metadata=""),
        ClusterOffset(topic_partition=P1, offset=5, leader_epoch=None, metadata="m"),
    )
    assert (group.members, group.problem) == ((), "")


def test_a_group_whose_coordinator_loads_is_not_asked_for_offsets_since_librdkafka_dies_of_that(
    admin: FakeAdmin, cluster: KafkaCluster
) -> None:
    admin.groups = {"loading": [stored(0, 1)], "ready": [stored(0, 2)]}
    admin.unknown = {"loading": LOADING}
    loading, ready = cluster.read(["loading", "ready"])
    assert "COORDINATOR_LOAD_IN_PROGRESS" in loading.problem
    assert (loading.offsets, ready.problem) == ((), "")
    assert admin.asked_for_offsets == ["ready"]


@pytest.mark.parametrize(
    ("members", "state", "expected"),
    [
        ([], ConsumerGroupState.EMPTY, ()),
        ([], ConsumerGroupState.DEAD, ()),
        ([], ConsumerGroupState.PREPARING_REBALANCING, ("members: the group is {}",)),
        ([("c", "/10.0.0.1")], ConsumerGroupState.STABLE, ("c at /10.0.0.1",)),
    ],
)
def test_members_are_told_and_a_group_that_rebalances_has_some(
    admin: FakeAdmin,
    cluster: KafkaCluster,
    members: list[tuple[str, str]],
    state: ConsumerGroupState,
    expected: tuple[str, ...],
) -> None:
    admin.members = {"g": [SimpleNamespace(client_id=each[0], host=each[1]) for each in members]}
    admin.states = {"g": state}
    [group] = cluster.read(["g"])
    assert group.members == tuple(each.format(state.name) for each in expected)


def test_what_is_refused_of_one_group_is_told_with_it_and_the_others_are_read(
    admin: FakeAdmin, cluster: KafkaCluster
) -> None:
    bad = SimpleNamespace(topic="t", partition=1, offset=5, error=KafkaError(29))
    admin.groups = {"a": FORBIDDEN, "b": [stored(0, 1), bad], "c": [stored(0, 2)]}
    a, b, c = cluster.read(["a", "b", "c"])
    assert "GROUP_AUTHORIZATION_FAILED" in a.problem
    assert b.problem == "1 offset cannot be read, first that of t:1"
    assert [each.offset for each in b.offsets] == [1]
    assert (c.problem, len(c.offsets)) == ("", 1)


def test_where_nobody_answers_it_ends_and_says_how_far_it_was(
    admin: FakeAdmin, cluster: KafkaCluster
) -> None:
    admin.groups = {f"g{number:03}": [stored(0, 1)] for number in range(CALLS_MAX + 2)}
    last = sorted(admin.groups)[CALLS_MAX:]
    admin.unknown = dict.fromkeys(last, SILENT)
    reading = cluster.read(cluster.group_ids())
    with pytest.raises(
        ClusterFailed, match=f"kafka:9092.*groups that were read before: {CALLS_MAX}"
    ):
        list(reading)
    admin.unknown = {last[0]: SILENT}
    *_, silent, _ = cluster.read(cluster.group_ids())
    assert "_TIMED_OUT" in silent.problem


def test_a_listing_that_a_broker_has_no_part_in_is_no_listing(
    admin: FakeAdmin, cluster: KafkaCluster
) -> None:
    admin.groups = {"g": []}
    admin.listing_errors = [KafkaError(KafkaError._TRANSPORT)]
    with pytest.raises(ClusterFailed, match=r"not all groups are told of.*1 brokers"):
        cluster.group_ids()


@pytest.mark.parametrize(("tries", "is_read"), [(1, True), (9, True), (10, False)])
def test_metadata_that_does_not_decode_is_read_again_and_then_given_up(
    admin: FakeAdmin, cluster: KafkaCluster, tries: int, is_read: bool
) -> None:
    admin.groups = {"g": [stored(0, 1)]}
    admin.unread_tries = {"g": tries}
    [group] = cluster.read(["g"])
    assert (len(group.offsets), "folders" in group.problem) == (is_read, not is_read)


def test_offsets_are_written_with_epoch_and_metadata_and_refusals_are_counted(
    admin: FakeAdmin, cluster: KafkaCluster
) -> None:
    cluster.set_offsets("g", {P0: OffsetToCommit(5, leader_epoch=3, metadata="m")})
    [written] = admin.written
    assert (written.topic, written.partition, written.offset) == ("t", 0, 5)
    assert (written.leader_epoch, written.metadata) == (3, "m")
    refused = SimpleNamespace(topic="t", partition=1, error=KafkaError(3))
    admin.written.append(refused)  # type: ignore[arg-type]
    with pytest.raises(ClusterFailed, match=r"offsets that are refused: 1 of 1, first that of t:1"):
        cluster.set_offsets("g", {P1: OffsetToCommit(5)})


def test_partitions_that_are_not_there_have_no_bounds_and_other_errors_are_raised(
    admin: FakeAdmin, cluster: KafkaCluster
) -> None:
    admin.bounds = {P0: (3, 9), P1: KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))}
    assert cluster.bounds([P0, P1]) == ({P0: Bounds(3, 9)}, {P1})
    admin.bounds[P1] = SILENT
    with pytest.raises(ClusterFailed) as failed:
        cluster.bounds([P0, P1])
    assert failed.value.is_unreachable


def test_settings_that_librdkafka_does_not_know_are_named() -> None:
    with pytest.raises(ClusterFailed, match=r"no\.such\.setting"):
        KafkaCluster({"bootstrap.servers": "kafka:9092", "no.such.setting": "1"})

"""The topics of a cluster: what is asked of them, and what is told of a weaker one."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from offsetd_coordinator.cluster.kafka_clients import ClusterNames
from offsetd_coordinator.cluster.topic_settings import (
    DELETE_RETENTION_MS,
    FoundTopic,
    TopicNeed,
    topic_needs,
    weaknesses,
)
from offsetd_coordinator.configuration.settings_sources import load_settings
from promised import promised_by

promised = promised_by("docs/guides/several-nodes.md")

NEED = TopicNeed(
    name="__c_offsets",
    partitions=12,
    replication_factor=3,
    exact={"cleanup.policy": "compact"},
    least={"min.insync.replicas": 2},
)
FOUND = FoundTopic(
    topic_id="t",
    partitions=12,
    replication_factor=3,
    settings={"cleanup.policy": "compact", "min.insync.replicas": "2", "segment.ms": "1"},
)


def told(**changes: Any) -> list[str]:
    return list(weaknesses(NEED, attrs.evolve(FOUND, **changes)))


def test_a_topic_as_asked_for_and_a_stronger_one_are_accepted() -> None:
    assert told() == []
    stronger = {**FOUND.settings, "min.insync.replicas": "3"}
    assert told(replication_factor=4, settings=stronger) == []


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"partitions": 11}, "--set offsets.topic.num.partitions=11"),
        ({"partitions": 13}, "--set offsets.topic.num.partitions=13"),
        ({"replication_factor": 2}, "--set cluster.replication.factor=2"),
        ({"settings": {"cleanup.policy": "compact"}}, "--add-config min.insync.replicas=2"),
        (
            {"settings": {**FOUND.settings, "min.insync.replicas": "1"}},
            "--add-config min.insync.replicas=2",
        ),
        (
            {"settings": {**FOUND.settings, "cleanup.policy": "compact,delete"}},
            "--add-config cleanup.policy=compact",
        ),
    ],
)
def test_what_is_weaker_is_told_with_its_remedy(changes: Any, remedy: str) -> None:
    [problem] = told(**changes)
    assert problem.startswith("topic __c_offsets has ")
    assert remedy in problem


def test_each_weakness_is_told() -> None:
    assert len(told(partitions=1, replication_factor=1, settings={})) == 4


def needs(partitions: int | None = 50, **said: object) -> dict[str, TopicNeed]:
    assignments = [f"{name.replace('_', '.')}={value}" for name, value in said.items()]
    settings = load_settings(assignments=["data.dir=/nowhere", *assignments])
    names = ClusterNames(cluster_id=settings.cluster_id)
    return {each.name: each for each in topic_needs(settings, names, partitions)}


def test_a_number_of_partitions_that_is_not_asked_for_is_the_topics() -> None:
    asked, any_number = (needs(number)["__offsetd_offsets"] for number in (50, None))
    found = attrs.evolve(FOUND, settings=asked.settings, partitions=30)
    assert len(list(weaknesses(asked, found))) == 1
    assert list(weaknesses(any_number, found)) == []
    assert any_number.partitions == 12, "for a new topic"
    for each in needs(None).values():
        assert each.is_count_fixed == (each.name != "__offsetd_offsets")


def test_the_topic_of_offsets_keeps_what_history_and_request_ids_need() -> None:
    found = needs(cluster_id="c", history_ms=7_200_000, cluster_min_insync_replicas=1)
    assert set(found) == {"__c_offsets", "__c_config", "__c_audit"}
    offsets = found["__c_offsets"]
    assert offsets.partitions == 50
    assert offsets.exact["cleanup.policy"] == "compact"
    assert offsets.exact["message.timestamp.type"] == "CreateTime"
    assert offsets.exact["unclean.leader.election.enable"] == "false"
    assert offsets.least["min.compaction.lag.ms"] >= 7_200_000
    assert offsets.least["delete.retention.ms"] == DELETE_RETENTION_MS
    assert {each.least["min.insync.replicas"] for each in found.values()} == {1}
    assert found["__c_config"].exact["cleanup.policy"] == "compact"
    assert found["__c_audit"].exact["cleanup.policy"] == "delete"
    assert all(each.replication_factor == 3 for each in found.values())


def test_a_topic_that_was_made_as_asked_for_is_accepted() -> None:
    for need in needs().values():
        made = FoundTopic(
            topic_id="t",
            partitions=need.partitions,
            replication_factor=need.replication_factor,
            settings=need.settings,
        )
        assert list(weaknesses(need, made)) == []


@promised(
    "The first node makes the topic so that Kafka keeps commits for as long as its `history.ms` "
    "and `request.id.window.ms` ask for.",
    "If you raise one of these later, nodes refuse to start until the topic keeps them for that "
    "time, too; the message has the command for it.",
)
@pytest.mark.parametrize("raised", ["history_ms", "request_id_window_ms"])
def test_a_topic_for_a_shorter_history_is_refused_with_the_command_for_a_longer_one(
    raised: str,
) -> None:
    short = {"history_ms": 0, "request_id_window_ms": 0}
    before = needs(**short)["__offsetd_offsets"]
    made = FoundTopic(
        topic_id="t",
        partitions=before.partitions,
        replication_factor=before.replication_factor,
        settings=before.settings,
    )
    after = needs(**{**short, raised: 7_200_000})["__offsetd_offsets"]
    [problem] = weaknesses(after, made)
    assert "has min.compaction.lag.ms=0, and the cluster needs 7200000" in problem
    assert "--add-config min.compaction.lag.ms=7200000" in problem

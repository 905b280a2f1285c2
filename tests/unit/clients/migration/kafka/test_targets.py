"""offsetd_clients.migration.kafka.targets: who minds, and what partitions have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from migrations import found
from offsetd_clients import Bounds, TopicPartition
from offsetd_clients.migration.differences import GONE
from offsetd_clients.migration.kafka.cluster import ClusterFailed, ClusterGroup, ClusterOffset
from offsetd_clients.migration.kafka.targets import (
    ClusterTarget,
    bounds_at,
    objection_of,
)
from offsetd_clients.migration.outcomes import listed
from offsetd_clients.migration.run import objection_by_plan
from offsetd_clients.migration.values import PlannedGroup

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def planned(owners: tuple[str, ...] | None = ()) -> PlannedGroup:
    return PlannedGroup(
        source_group_id="there",
        group_id="here",
        offsets=(found("t", 0, 10), found("t", 1, 20)),
        owners=owners,
    )


def cluster_with(group: ClusterGroup) -> Any:
    def read(group_ids: list[str]) -> list[ClusterGroup]:
        assert group_ids == ["there"]
        return [group]

    return SimpleNamespace(read=read)


def offset(at: TopicPartition, number: int) -> ClusterOffset:
    return ClusterOffset(topic_partition=at, offset=number, leader_epoch=3, metadata="m")


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (ClusterGroup(group_id="there", offsets=(offset(P0, 10), offset(P1, 20))), ""),
        (
            ClusterGroup(group_id="there", offsets=(offset(P0, 10),)),
            "plan it again: t:1 is absent there by now",
        ),
        (
            ClusterGroup(group_id="there", offsets=(offset(P0, 11), offset(P1, 20))),
            "plan it again: t:0 is 11 there by now",
        ),
        (
            ClusterGroup(group_id="there", members=("c at /h",), offsets=(offset(P0, 10),)),
            "it has members: c at /h",
        ),
        (ClusterGroup(group_id="there", problem="no leave"), "no leave"),
    ],
)
def test_a_group_that_lives_or_has_moved_on_is_not_moved(
    group: ClusterGroup, expected: str
) -> None:
    assert objection_of(cluster_with(group))(planned()) == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ((), ""),
        (("members, when it was copied",), "it had members, when it was copied"),
        (None, "whether it has members could not be read"),
    ],
)
def test_without_a_cluster_the_plan_says_who_was_alive(
    owners: tuple[str, ...] | None, expected: str
) -> None:
    assert objection_by_plan(planned(owners)) == expected


def test_a_partition_that_is_not_there_has_no_offset_at_all() -> None:
    cluster: Any = SimpleNamespace(bounds=lambda _: ({P0: Bounds(3, 9)}, {P1}))
    assert bounds_at(cluster, [P0, P1]) == {P0: Bounds(3, 9), P1: GONE}


def test_a_cluster_can_be_compared_with_and_a_group_that_cannot_be_read_is_named() -> None:
    client: Any = None
    whole = ClusterGroup(group_id="there", offsets=(offset(P0, 10),))
    stored = ClusterTarget(client, cluster_with(whole)).stored(["there"])["there"][P0]
    assert (stored.offset, stored.leader_epoch, stored.metadata) == (10, 3, "m")
    broken = ClusterGroup(group_id="there", problem="no leave")
    with pytest.raises(ClusterFailed, match="group there: no leave"):
        ClusterTarget(client, cluster_with(broken)).stored(["there"])


def test_lists_for_people_are_short() -> None:
    assert listed(["a", "b"]) == "a; b"
    assert listed(list("abcde")) == "a; b; c; and 2 more"

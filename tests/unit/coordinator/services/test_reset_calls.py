"""Resets and clones through the service: what they come to, why they are refused, the record."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import group_service_pb2, offset_service_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.cooperative_scheduling import ITEMS_PER_TURN, SLICE_ROWS
from offsetd_coordinator.offset_changes import Bounds
from offsetd_coordinator.services.reset_calls import ResetCalls
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.offsets_topic.placement import partition_of
from serving_nodes import METADATA_UNITS_MAX, PARTITIONS, WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetd_coordinator.offset_changes import Partition

Changes = list[tuple[str, int, int | None, int]]


async def reset(
    serving: ServingNode, kafka: Any = None, **fields: Any
) -> offset_service_pb2.ResetOffsetsResponse:
    request = offset_service_pb2.ResetOffsetsRequest(**fields)
    answer = ResetCalls(serving.node, kafka, metadata_units_max=METADATA_UNITS_MAX).reset_offsets(
        request.SerializeToString()
    )
    return offset_service_pb2.ResetOffsetsResponse.FromString(
        await asyncio.wait_for(answer, WAIT_SECONDS)
    )


async def clone(
    serving: ServingNode, source: str, target: str, **fields: Any
) -> group_service_pb2.CloneGroupResponse:
    request = group_service_pb2.CloneGroupRequest(
        source_group_id=source, target_group_id=target, **fields
    )
    answer = ResetCalls(serving.node, None, metadata_units_max=METADATA_UNITS_MAX).clone_group(
        request.SerializeToString()
    )
    return group_service_pb2.CloneGroupResponse.FromString(
        await asyncio.wait_for(answer, WAIT_SECONDS)
    )


def changes(
    response: offset_service_pb2.ResetOffsetsResponse | group_service_pb2.CloneGroupResponse,
) -> Changes:
    return [
        (
            each.topic,
            each.partition,
            each.offset_before if each.HasField("offset_before") else None,
            each.offset_after,
        )
        for each in response.changes
    ]


def audited(serving: ServingNode) -> list[dict[str, Any]]:
    log = serving.store.logs[AUDIT_PARTITION]
    return [
        json.loads(record.value or b"")
        for buffer, end in log.read_chunks(1 << 16)
        for batch in decode_batches(buffer[:end].tobytes())
        for record in batch.records
    ]


async def stored(serving: ServingNode, group_id: str) -> dict[tuple[str, int], int]:
    [group] = await serving.fetch(group_id)
    return {(each.topic, each.partition): each.offset for each in group.offsets}


ORDERS = [
    {"topic": "orders", "partition": 0, "offset": 100, "end_offset": 200},
    {"topic": "orders", "partition": 1, "offset": 50, "metadata": "m", "leader_epoch": 3},
    {"topic": "other", "partition": 0, "offset": 7, "end_offset": 7},
]
BOUNDS = [
    {"topic": "orders", "partition": 0, "earliest": 10, "latest": 300},
    {"topic": "orders", "partition": 1, "earliest": 20, "latest": 60},
]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"offset": 5}, [("orders", 0, 100, 5), ("orders", 1, 50, 5), ("other", 0, 7, 5)]),
        ({"offset": 5, "topics": ["orders"]}, [("orders", 0, 100, 5), ("orders", 1, 50, 5)]),
        (
            {"offset": 5, "partitions": [{"topic": "new", "partition": 9}]},
            [("new", 9, None, 5)],
        ),
        (
            {
                "offset": 5,
                "topics": ["other"],
                "partitions": [{"topic": "orders", "partition": 1}],
            },
            [("orders", 1, 50, 5), ("other", 0, 7, 5)],
        ),
        ({"shift_by": -7}, [("orders", 0, 100, 93), ("orders", 1, 50, 43), ("other", 0, 7, 0)]),
        (
            {"earliest": True, "topics": ["orders"], "bounds": BOUNDS},
            [("orders", 0, 100, 10), ("orders", 1, 50, 20)],
        ),
        (
            {"latest": True, "topics": ["orders"], "bounds": BOUNDS},
            [("orders", 0, 100, 300), ("orders", 1, 50, 60)],
        ),
        (
            {"latest": True, "partitions": [{"topic": "orders", "partition": 0}]},
            [("orders", 0, 100, 200)],
        ),
        (
            {"current": True},
            [("orders", 0, 100, 100), ("orders", 1, 50, 50), ("other", 0, 7, 7)],
        ),
        (
            {
                "current": True,
                "partitions": [{"topic": "new", "partition": 0}],
                "bounds": [{"topic": "new", "partition": 0, "latest": 44}],
            },
            [("new", 0, None, 44)],
        ),
        (
            {"explicit": {"offsets": [{"topic": "orders", "partition": 1, "offset": 49}]}},
            [("orders", 1, 50, 49)],
        ),
    ],
)
async def test_a_reset_moves_what_is_chosen_to_where_it_is_told(
    fields: dict[str, Any], expected: Changes
) -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        before = await stored(serving, "g")
        preview = await reset(serving, group_id="g", validate_only=True, **fields)
        assert changes(preview) == expected
        assert not preview.HasField("revision")
        assert (await stored(serving, "g"), audited(serving)) == (before, [])
        response = await reset(serving, group_id="g", reason="why", request_id="r", **fields)
        assert changes(response) == expected
        after = {(topic, partition): offset for topic, partition, _, offset in expected}
        assert await stored(serving, "g") == before | after
        assert response.revision.log_partition == partition_of("g", PARTITIONS)
        assert response.revision.log_offset == len(ORDERS) + len(expected) - 1
        [event] = audited(serving)
        assert (event["method"], event["reason"], event["request_id"]) == (
            "ResetOffsets",
            "why",
            "r",
        )
        assert event["what"]["group"] == "g"
        assert event["what"]["offset_count"] == len(expected)
        # Asked again, it is answered, and nothing moves: also where it is told by a shift. Only how
        # sure its ends were is not known any more.
        response.ClearField("reported_end_count")
        response.ClearField("unknown_end_count")
        assert await reset(serving, group_id="g", request_id="r", **fields) == response
        assert await stored(serving, "g") == before | after
        assert len(audited(serving)) == 1


async def test_an_offset_keeps_its_epoch_and_metadata_only_where_it_stays() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        await reset(serving, group_id="g", current=True)
        [group] = await serving.fetch("g")
        assert (group.offsets[1].metadata, group.offsets[1].leader_epoch) == ("m", 3)
        await reset(serving, group_id="g", shift_by=1, topics=["orders"], bounds=BOUNDS)
        [group] = await serving.fetch("g")
        assert group.offsets[1].metadata == ""
        assert not group.offsets[1].HasField("leader_epoch")


NEW = {"topic": "new", "partition": 0}


@pytest.mark.parametrize(
    ("fields", "refusal", "told"),
    [
        ({}, errors.InvalidRequest, "a target is required"),
        ({"offset": -1}, errors.InvalidOffset, "-1 is below 0"),
        ({"earliest": False}, errors.InvalidRequest, "it must be true if it is set"),
        ({"current": False}, errors.InvalidRequest, "it must be true if it is set"),
        ({"group_id": "", "offset": 1}, errors.InvalidGroupId, "empty"),
        ({"offset": 1, "topics": [""]}, errors.InvalidTopic, "empty"),
        ({"offset": 1, "partitions": [NEW, NEW]}, errors.InvalidPartition, "twice"),
        ({"offset": 1, "bounds": [NEW, NEW]}, errors.InvalidPartition, "twice"),
        ({"offset": 1, "reason": "x" * 1025}, errors.InvalidRequest, "1025 UTF-16 units"),
        ({"offset": 1, "request_id": "x" * 65}, errors.InvalidRequestId, "65 bytes"),
        (
            {"offset": 1, "bounds": [{**NEW, "earliest": 2, "latest": 1}]},
            errors.InvalidOffset,
            "below the earliest",
        ),
        ({"explicit": {}}, errors.InvalidRequest, "at least one"),
        (
            {"explicit": {"offsets": [{**NEW, "offset": 1}]}, "topics": ["orders"]},
            errors.InvalidRequest,
            "name no others",
        ),
        (
            {"explicit": {"offsets": [{**NEW, "offset": -1}]}},
            errors.InvalidOffset,
            "-1 is below 0",
        ),
        ({"time": {"seconds": 2**40}}, errors.InvalidRequest, "from year 1 to 9999"),
        (
            {"time": {"seconds": 4_070_908_800}},
            errors.InvalidRequest,
            r"2099-01-01T00:00:00\.000Z is not in the past: it is 20\S+Z now",
        ),
        ({"time": {"seconds": -1}}, errors.InvalidRequest, "it is before 1970"),
        ({"duration": {"seconds": -1}}, errors.InvalidRequest, "from 0 to 10,000 years"),
        ({"group_id": "none", "offset": 1}, errors.GroupIdNotFound, "'none'"),
        ({"shift_by": 1, "partitions": [NEW]}, errors.OffsetNotCommitted, "without one: 1"),
        ({"offset": 1, "topics": ["new"]}, errors.OffsetNotCommitted, "1 of the topics;"),
        (
            {"offset": 1, "topics": ["order"]},
            errors.OffsetNotCommitted,
            r"of the topics; did you mean orders\?; to begin",
        ),
        (
            {"earliest": True},
            errors.OffsetBoundsUnknown,
            "earliest offset is not known: give bounds; partitions: 3",
        ),
        (
            {"latest": True},
            errors.OffsetBoundsUnknown,
            "latest offset is not known: give bounds; partitions: 1",
        ),
        ({"current": True, "partitions": [NEW]}, errors.OffsetBoundsUnknown, "latest"),
        ({"shift_by": -51}, errors.OffsetOutOfRange, "2 of 3"),
        ({"offset": 250}, errors.OffsetOutOfRange, "2 of 3"),
        ({"offset": 15, "bounds": BOUNDS}, errors.OffsetOutOfRange, "2 of 3"),
        ({"shift_by": 2**63 - 1}, errors.OffsetOutOfRange, "3 of 3"),
    ],
)
async def test_what_cannot_be_reset_says_why_and_nothing_changes(
    fields: dict[str, Any], refusal: type[errors.CoordinatorError], told: str
) -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        before = await stored(serving, "g")
        with pytest.raises(refusal, match=told):
            await reset(serving, **{"group_id": "g", **fields})
        assert (await stored(serving, "g"), audited(serving)) == (before, [])


async def test_what_is_out_of_range_is_listed_with_its_bounds() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        with pytest.raises(errors.OffsetOutOfRange) as refused:
            await reset(serving, group_id="g", offset=15, bounds=BOUNDS)
        assert refused.value.listed == (
            {"topic": "orders", "partition": 1, "offset": 15}
            | {"earliest": 20, "earliest_source": "request"}
            | {"latest": 60, "latest_source": "request"},
            {"topic": "other", "partition": 0, "offset": 15}
            | {"latest": 7, "latest_source": "reported"},
        )


class Cluster:
    """A Kafka cluster that says what it has."""

    def __init__(self, bounds: dict[tuple[str, int], tuple[int, int]]) -> None:
        self.has = {(topic.encode(), n): Bounds(*each) for (topic, n), each in bounds.items()}
        self.asked: list[tuple[set[Partition], set[bytes]]] = []

    async def bounds(
        self, partitions: Collection[Partition], topics: Collection[bytes]
    ) -> dict[Partition, Bounds]:
        self.asked.append((set(partitions), set(topics)))
        return {
            each: bounds
            for each, bounds in self.has.items()
            if each in partitions or each[0] in topics
        }


async def test_bounds_that_are_not_given_are_asked_of_the_cluster() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        cluster = Cluster({("orders", 0): (1, 101), ("orders", 1): (2, 52), ("orders", 2): (3, 9)})
        # The cluster knows a partition that has no offset yet; a bound that is given goes before.
        response = await reset(
            serving,
            cluster,
            group_id="g",
            earliest=True,
            topics=["orders"],
            bounds=[{"topic": "orders", "partition": 0, "earliest": 90}],
        )
        assert changes(response) == [
            ("orders", 0, 100, 90),
            ("orders", 1, 50, 2),
            ("orders", 2, None, 3),
        ]
        with pytest.raises(errors.OffsetOutOfRange):
            await reset(serving, cluster, group_id="g", offset=53, topics=["orders"])
        everything = {(b"orders", 0), (b"orders", 1), (b"orders", 2), (b"other", 0)}
        await reset(serving, cluster, group_id="g", shift_by=0)
        assert cluster.asked[-1] == (everything, set())


async def test_a_topic_that_had_nothing_then_is_named_beside_one_that_had() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        time_ms = serving.clock.now_ms()
        serving.clock.advance(1000)
        await serving.commit_offsets("g", NEW)
        target = {"time": {"seconds": time_ms // 1000, "nanos": time_ms % 1000 * 1_000_000}}
        with pytest.raises(errors.OffsetNotCommitted, match="topics: 1") as refused:
            await reset(serving, group_id="g", topics=["orders", "new"], **target)
        assert refused.value.listed == ({"topic": "new"},)
        response = await reset(serving, group_id="g", topics=["orders"], **target)
        assert changes(response) == [("orders", 0, 100, 100), ("orders", 1, 50, 50)]


async def test_what_is_not_committed_is_reset_to_the_clusters_latest_beside_what_is() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        # What is committed stays, also where the cluster has it no more.
        cluster = Cluster({("orders", 0): (150, 200), ("orders", 2): (3, 9), ("new", 0): (0, 4)})
        response = await reset(serving, cluster, group_id="g", current=True, topics=["orders"])
        assert changes(response) == [
            ("orders", 0, 100, 100),
            ("orders", 1, 50, 50),
            ("orders", 2, None, 9),
        ]
        response = await reset(serving, cluster, group_id="h", current=True, partitions=[NEW])
        assert changes(response) == [("new", 0, None, 4)]
        assert cluster.asked == [(set(), {b"orders"}), ({(b"new", 0)}, set())]
        # All that is committed is known without the cluster.
        await reset(serving, cluster, group_id="g", current=True)
        assert len(cluster.asked) == 2


async def test_offsets_go_to_another_group_with_all_they_have() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        targets = [f"copy{number}" for number in range(8)]
        assert {partition_of(each, PARTITIONS) for each in targets} == set(range(PARTITIONS))
        for target in targets:
            preview = await clone(serving, "g", target, validate_only=True)
            assert (preview.offset_count, preview.HasField("revision")) == (3, False)
            assert await stored(serving, target) == {}
            response = await clone(serving, "g", target, reason="why")
            assert response.revision.log_partition == partition_of(target, PARTITIONS)
            assert changes(response)[0] == ("orders", 0, None, 100)
            source, copy = await serving.fetch("g", target)
            for one, other in zip(source.offsets, copy.offsets, strict=True):
                assert (one.topic, one.partition, one.offset, one.metadata) == (
                    other.topic,
                    other.partition,
                    other.offset,
                    other.metadata,
                )
                assert one.HasField("leader_epoch") == other.HasField("leader_epoch")
                assert one.leader_epoch == other.leader_epoch
        assert [event["method"] for event in audited(serving)] == ["CloneGroup"] * 8
        assert audited(serving)[0]["what"]["source"] == "g"


async def test_a_group_that_exists_is_overwritten_only_when_told() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        await serving.commit_offsets("h", {"topic": "orders", "partition": 0, "offset": 1}, NEW)
        before = await stored(serving, "h")
        with pytest.raises(errors.GroupExists, match="'h'"):
            await clone(serving, "g", "h")
        assert (await stored(serving, "h"), audited(serving)) == (before, [])
        response = await clone(serving, "g", "h", overwrite=True, topics=["orders"])
        assert (response.offset_count, response.kept_offset_count) == (2, 1)
        assert await stored(serving, "h") == {("new", 0): 0, ("orders", 0): 100, ("orders", 1): 50}


def source_offsets(*offsets: dict[str, Any], group_id: str = "g") -> dict[str, Any]:
    """A field of a clone: offsets of a source that another node has."""
    given = [offset_service_pb2.CommittedOffset(**each) for each in offsets]
    return {"source_offsets": offset_service_pb2.GroupOffsets(group_id=group_id, offsets=given)}


async def test_a_clone_takes_the_given_offsets_of_a_source_that_is_elsewhere() -> None:
    given = [
        {"topic": "orders", "partition": 1, "offset": 6, "metadata": "m", "leader_epoch": 2},
        {"topic": "new", "partition": 0, "offset": 5, "revision": 99},
    ]
    async with serving_node() as serving:
        response = await clone(serving, "g", "h", **source_offsets(*given))
        assert changes(response) == [("new", 0, None, 5), ("orders", 1, None, 6)]
        assert await stored(serving, "h") == {("new", 0): 5, ("orders", 1): 6}
        [copy] = await serving.fetch("h")
        assert [(each.metadata, each.leader_epoch) for each in copy.offsets] == [("", 0), ("m", 2)]
        await clone(serving, "g", "i", topics=["orders"], **source_offsets(*given))
        assert await stored(serving, "i") == {("orders", 1): 6}
        assert [each["what"]["source"] for each in audited(serving)] == ["g", "g"]


async def test_very_many_given_offsets_are_all_written() -> None:
    given = [{"topic": "t", "partition": each, "offset": each} for each in range(SLICE_ROWS + 7)]
    async with serving_node() as serving:
        assert (await clone(serving, "g", "h", **source_offsets(*given))).offset_count == len(given)
        assert await stored(serving, "h") == {("t", each): each for each in range(len(given))}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (source_offsets(), errors.GroupIdNotFound),
        (source_offsets({"topic": "t", "offset": 1}, group_id="x"), errors.InvalidGroupId),
        (source_offsets({"topic": "t", "offset": -1}), errors.InvalidOffset),
        (source_offsets({"topic": "", "offset": 1}), errors.InvalidTopic),
        (source_offsets({"topic": "t", "leader_epoch": -1}), errors.InvalidLeaderEpoch),
        (source_offsets({"topic": "t", "metadata": "m" * 5000}), errors.InvalidMetadata),
        (source_offsets({"topic": "t"}, {"topic": "t"}), errors.InvalidPartition),
    ],
)
async def test_wrong_given_offsets_are_refused(
    given: dict[str, Any], error: type[errors.CoordinatorError]
) -> None:
    async with serving_node() as serving:
        with pytest.raises(error):
            await clone(serving, "g", "h", **given)
        assert (await stored(serving, "h"), audited(serving)) == ({}, [])


async def test_a_clone_that_is_asked_for_again_is_answered_again() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        first = await clone(serving, "g", "h", request_id="r")
        again = await clone(serving, "g", "h", request_id="r")
        assert (again.revision, again.changes) == (first.revision, first.changes)
        assert len(audited(serving)) == 1


@pytest.mark.parametrize(
    ("source", "target", "refusal"),
    [
        ("none", "h", errors.GroupIdNotFound),
        ("g", "g", errors.InvalidGroupId),
        ("g", "", errors.InvalidGroupId),
    ],
)
async def test_what_cannot_be_cloned_says_why(
    source: str, target: str, refusal: type[errors.CoordinatorError]
) -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        with pytest.raises(refusal):
            await clone(serving, source, target)
        assert audited(serving) == []


MANY = [{"topic": "t", "partition": number} for number in range(3 * ITEMS_PER_TURN)]


@pytest.mark.parametrize(
    "fields",
    [
        {"explicit": {"offsets": [each | {"offset": 1} for each in MANY]}},
        {"offset": 2, "partitions": MANY},
        {"latest": True, "topics": ["t"], "bounds": [each | {"latest": 3} for each in MANY]},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_large_reset_lets_others_come_between(fields: dict[str, Any]) -> None:
    turns = 0

    async def look() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serving_node() as serving:
        await serving.commit_offsets("g", {"topic": "t", "partition": 0, "offset": 1})
        looking = asyncio.create_task(look())
        response = await reset(serving, group_id="g", validate_only=True, **fields)
        looking.cancel()
        # Three while it is read, and three while it is answered.
        assert turns >= 6
        assert len(response.changes) == len(MANY)
        response = await reset(serving, group_id="g", **fields)
        revisions = [each.revision.log_offset for each in response.changes]
    assert revisions == list(range(1, 1 + len(MANY)))

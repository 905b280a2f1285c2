"""Shards loaded from a broker's folder answer what the broker's admin API answered.

librdkafka wrote metadata with a NUL behind it, and cuts at the first NUL when it reads: the log
and `dump.txt` have `host-7\\0` where `answers.json`, which that client asked for, has `host-7`. We
return what the log holds, so metadata is compared up to its first NUL.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic.placement import partition_of
from shards import listed_groups, new_shard

if TYPE_CHECKING:
    from offsetd_coordinator.shard.shard import Shard

BROKER = Path(__file__).parent / "kafka-4.1.1"
ANSWERS: dict[str, Any] = json.loads((BROKER / "answers.json").read_text(encoding="utf-8"))
PARTITIONS = 50


@pytest.fixture(scope="module", name="shards")
def load_shards() -> dict[int, Shard]:
    shards = {partition: new_shard(partition) for partition in range(PARTITIONS)}
    for partition, shard in shards.items():
        for segment in sorted((BROKER / "data" / f"__consumer_offsets-{partition}").glob("*.log")):
            content = segment.read_bytes()
            shard.replay(padded_copy(content), 0, len(content))
    return shards


def test_the_groups_the_broker_listed_exist_and_no_others(shards: dict[int, Shard]) -> None:
    listed = {
        listing.group_id.decode(): {
            "state": listing.state.name,
            "simple": listing.protocol_type == "",
            "type": listing.type.name,
        }
        for shard in shards.values()
        for listing in listed_groups(shard)
    }
    assert listed == ANSWERS["listed"]


@pytest.mark.parametrize("group", sorted({*ANSWERS["listed"], *ANSWERS["offsets"]}))
def test_the_offsets_of_a_group_are_those_the_broker_answered(
    shards: dict[int, Shard], group: str
) -> None:
    answered = {
        (each["topic"], each["partition"]): (
            each["offset"],
            each["metadata"],
            -1 if each["leader_epoch"] is None else each["leader_epoch"],
        )
        for each in ANSWERS["offsets"].get(group, [])
    }
    shard = shards[partition_of(group, PARTITIONS)]
    stored = {
        (each.topic.decode(), each.partition): (
            each.offset,
            each.metadata.decode().partition("\0")[0],
            each.leader_epoch,
        )
        for each in shard.fetch(group.encode())
    }
    assert stored == answered


def test_every_record_was_understood_and_every_group_is_where_its_hash_says(
    shards: dict[int, Shard],
) -> None:
    for shard in shards.values():
        counters = shard.counters()
        assert (counters.unknown_records, counters.undecodable_records) == (0, 0)
        assert counters.pending_offset_count == 0
        assert shard.misplaced_groups() == []


def test_members_of_a_group_that_was_running_are_described(shards: dict[int, Shard]) -> None:
    group = shards[partition_of("static-workers", PARTITIONS)].get_group(b"static-workers")
    assert [member.instance_id for member in group.members] == ["inst-0", "inst-1"]
    assert sorted(each for member in group.members for each in member.assignment) == [
        ("orders", 0),
        ("orders", 1),
        ("orders", 2),
    ]

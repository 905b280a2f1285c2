"""Loading the shards of a store."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from log_stores import opened
from offsetd_coordinator.runtime.shard_loader import LoadProgress, load
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.log_store import OFFSETS_TOPIC, LogStore
from offsetd_storage.topic_partition import TopicPartition
from shards import ask, commit, entry, new_shard, state_of

if TYPE_CHECKING:
    from offsetd_coordinator.shard.shard import Shard


def new_shards(store: LogStore) -> dict[int, Shard]:
    return {
        topic_partition.partition: new_shard(topic_partition.partition, partitions=3)
        for topic_partition in store.logs
        if topic_partition.topic == OFFSETS_TOPIC
    }


def fill(store: LogStore, shards: dict[int, Shard], commits: int) -> None:
    """Commits to all partitions, over several segments, as a runtime does."""
    for index in range(commits):
        for partition, shard in shards.items():
            decision = ask(shard, commit(f"group-{index % 7}", entry("t", index, partition)))
            assert decision.batch is not None
            store.append(
                TopicPartition(OFFSETS_TOPIC, partition),
                decision.batch,
                last_offset=decision.last_offset,
                max_timestamp_ms=decision.max_timestamp_ms,
            )
    store.flush()


@pytest.mark.parametrize("threads", [1, 3])
def test_loaded_shards_equal_those_that_wrote_and_go_on_behind_them(threads: int) -> None:
    files = SimulatedFiles()
    store = opened(files, random=Random(1))
    written = new_shards(store)
    fill(store, written, 40)
    assert all(len(log.segments) > 1 for log in store.logs.values())
    store.close()
    store = opened(files, random=Random(2))
    loaded = new_shards(store)
    load(store, loaded, threads, None)
    for partition, shard in loaded.items():
        assert state_of(shard) == state_of(written[partition])
        assert (shard.offset_next, shard.leader_epoch) == (40, 0)
    fill(store, loaded, 3)
    store.close()


def test_a_load_tells_how_far_it_is() -> None:
    store = opened(SimulatedFiles(), random=Random(1))
    fill(store, new_shards(store), 10)
    heard: list[LoadProgress] = []
    load(store, new_shards(store), 2, heard.append)
    assert [each.partitions_done for each in heard] == [1, 2, 3]
    assert {each.partitions_total for each in heard} == {3}
    assert heard[-1].bytes_done == heard[-1].bytes_total > heard[0].bytes_done
    store.close()


def test_shards_that_are_not_asked_for_are_not_loaded() -> None:
    store = opened(SimulatedFiles(), random=Random(1))
    written = new_shards(store)
    fill(store, written, 5)
    loaded = {1: new_shards(store)[1]}
    load(store, loaded, 1, None)
    assert state_of(loaded[1]) == state_of(written[1])
    store.close()


def test_a_file_that_is_no_longer_as_recovery_left_it_fails_the_load() -> None:
    files = SimulatedFiles()
    store = opened(files, random=Random(1))
    fill(store, new_shards(store), 5)
    log = store.logs[TopicPartition(OFFSETS_TOPIC, 1)]
    log.write()
    segment = log.segments[0]
    segment.file.truncate(segment.size_bytes - 1)
    with pytest.raises(CorruptBatch):
        load(store, new_shards(store), 2, None)
    store.abandon()

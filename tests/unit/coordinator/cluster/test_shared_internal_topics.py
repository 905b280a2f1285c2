"""A node's own settings and audit events as records of topics that all nodes share."""

from __future__ import annotations

from random import Random

import attrs
import pytest
from cluster_logs import CONFIG
from log_stores import opened
from offsetd_coordinator.cluster.copy_checkpoint import CopyCheckpoint
from offsetd_coordinator.cluster.kafka_clients import ClusterNames
from offsetd_coordinator.cluster.shared_internal_topics import (
    NODE_HEADER,
    append_internal_records,
    internal_record,
    internal_topics,
    read_internal_record,
)
from offsetd_coordinator.cluster.topic_records import (
    PlacedRecord,
    TopicRecord,
    placed_header,
    topic_records,
)
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.simulated_files import SimulatedFiles
from unit.coordinator.cluster.test_topic_records import Message

NOW_MS = 1_700_000_000_000


def written(key: bytes | None, node_id: str) -> TopicRecord:
    batch = encode_batch(
        [Record(key=key, value=b"v", offset=7, timestamp_ms=NOW_MS, headers=(("h", b"1"),))],
        base_offset=7,
    )
    [record] = topic_records(batch)
    return internal_record(node_id, record)


@pytest.mark.parametrize("key", [None, b"", b"\0setting"])
def test_a_record_comes_back_with_its_key_and_its_place(key: bytes | None) -> None:
    found = read_internal_record(Message(written(key, "n1")))
    assert found is not None
    assert found.node_id == "n1"
    assert found.placed.batch_offset == 7
    assert found.placed.record == Record(
        key=key, value=b"v", offset=7, timestamp_ms=NOW_MS, headers=(("h", b"1"),)
    )


def test_records_of_several_nodes_never_have_the_same_key_in_the_topic() -> None:
    names = ("n", "n1", "n\0", "m")
    keys = {written(key, node).key for key in (b"a", b"1a") for node in names}
    assert len(keys) == 2 * len(names)


def test_a_record_that_no_node_wrote_is_left_out() -> None:
    place = placed_header(1, 1)
    other = TopicRecord(b"key", b"v", NOW_MS, [place])
    assert read_internal_record(Message(other)) is None
    without_prefix = TopicRecord(b"key", b"v", NOW_MS, [(NODE_HEADER, b"n1"), place])
    assert read_internal_record(Message(without_prefix)) is None


def test_own_logs_have_topics_of_their_own() -> None:
    assert internal_topics(ClusterNames(cluster_id="c")) == {
        CONFIG_PARTITION: "__c_config",
        AUDIT_PARTITION: "__c_audit",
    }


def test_a_log_gets_what_it_lacks_and_nothing_twice() -> None:
    store = opened(SimulatedFiles(), CONFIG, random=Random(1))
    records = [
        PlacedRecord(at, Record(key=b"k", value=b"v", offset=at, timestamp_ms=NOW_MS))
        for at in (0, 3, 4)
    ]
    assert append_internal_records(store, AUDIT_PARTITION, records[:2]) == 2
    assert append_internal_records(store, AUDIT_PARTITION, records) == 1
    assert store.log(AUDIT_PARTITION).offset_next == 5
    assert store.durable_end(AUDIT_PARTITION) == 5


def test_how_far_own_topics_were_read_is_kept_with_the_copies(tmp_path: object) -> None:
    copies = CopyCheckpoint(topic_id="t", cluster_id="c", own_positions={"__offsetd_audit": 9})
    assert b'"own_positions": {"__offsetd_audit": 9}' in copies.encode(now_ms=1)
    assert attrs.evolve(copies).own_positions == {"__offsetd_audit": 9}

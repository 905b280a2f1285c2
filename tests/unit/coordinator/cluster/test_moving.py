"""Moving a log into a cluster and out of it: what needs no Kafka."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from cluster_logs import CONFIG
from log_stores import P0, opened
from offsetd_coordinator.cluster.claims import Claim
from offsetd_coordinator.cluster.moving.folder_records import log_batches, log_digest
from offsetd_coordinator.cluster.moving.log_digest import LogDigest, MoveRefused, compared
from offsetd_coordinator.cluster.moving.moving_in import MovingIn
from offsetd_coordinator.cluster.moving.moving_out import move_out
from offsetd_coordinator.cluster.topic_records import PlacedRecord, TopicRecord, placed_record
from offsetd_coordinator.cluster.topic_settings import (
    FILLING_LAG_MS,
    FoundTopic,
    TopicNeed,
    weaknesses,
)
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.simulated_files import SimulatedFiles
from unit.coordinator.cluster.test_topic_records import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition

NOW_MS = 1_700_000_000_000


def record(offset: int, value: bytes | None = b"v") -> Record:
    return Record(key=b"k", value=value, offset=offset, timestamp_ms=NOW_MS + offset)


def placed(*offsets: int, batch: int | None = None) -> list[PlacedRecord]:
    return [PlacedRecord(offsets[0] if batch is None else batch, record(each)) for each in offsets]


def digest_of(records: list[PlacedRecord]) -> LogDigest:
    digest = LogDigest()
    for each in records:
        digest.add(each)
    return digest


def new_store() -> LogStore:
    return opened(SimulatedFiles(), CONFIG, random=Random(1))


def append(store: LogStore, *records: Record, **more: Any) -> None:
    batch = encode_batch(records, base_offset=records[0].offset, **more)
    store.append(
        P0, batch, last_offset=records[-1].offset, max_timestamp_ms=records[-1].timestamp_ms
    )


@pytest.mark.parametrize(
    "other",
    [
        placed(0, 1)[:1],
        placed(0, 2),
        [*placed(0), *placed(1)],
        [PlacedRecord(0, record(0)), PlacedRecord(0, record(1, None))],
        [PlacedRecord(0, record(0)), PlacedRecord(0, attrs.evolve(record(1), timestamp_ms=1))],
        [
            PlacedRecord(0, record(0)),
            PlacedRecord(0, attrs.evolve(record(1), headers=(("", b""),))),
        ],
    ],
)
def test_a_digest_tells_every_difference(other: list[PlacedRecord]) -> None:
    assert digest_of(placed(0, 1)).value == digest_of(placed(0, 1)).value
    assert digest_of(other).value != digest_of(placed(0, 1)).value
    [difference] = compared({P0: digest_of(placed(0, 1))}, {P0: digest_of(other)})
    assert "read back" in (difference.problem or "")


def test_a_log_is_read_batch_by_batch_with_its_places() -> None:
    store = new_store()
    append(store, record(0), record(1))
    append(store, record(2))
    found = list(log_batches(P0, store.log(P0), has_keys=True))
    assert found == [placed(0, 1), placed(2)]
    assert log_digest(P0, store.log(P0), has_keys=True).records == 3


def test_transactions_of_kafka_are_refused() -> None:
    store = new_store()
    append(store, record(0), is_transactional=True, producer_id=1, producer_epoch=0)
    with pytest.raises(MoveRefused, match="offsetd migrate kafka"):
        list(log_batches(P0, store.log(P0), has_keys=True))


class Written:
    """Takes the place of the writer to topics."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int, TopicRecord]] = []

    def add(self, topic: str, partition: int, records: list[TopicRecord]) -> None:
        self.records += [(topic, partition, each) for each in records]


def moved(store: LogStore, there: LogDigest) -> list[PlacedRecord | None]:
    """What a move writes of the partition, if `there` is in the topic already."""
    moving = MovingIn(
        clients=SimpleNamespace(),  # type: ignore[arg-type]
        store=store,
        node_id="n1",
        wait_seconds=1,
        report=lambda *_: None,
    )
    written = Written()
    moving._writer = written  # type: ignore[assignment]
    digest = moving._moved(P0, "topic", there)
    assert digest.value == log_digest(P0, store.log(P0), has_keys=True).value
    assert digest.end_offset == store.log(P0).offset_next
    return [placed_record(Message(each)) for _, _, each in written.records]


def test_a_move_continues_behind_what_is_in_the_topic() -> None:
    store = new_store()
    append(store, record(0), record(1))
    append(store, record(2))
    append(store, record(3))
    assert moved(store, LogDigest()) == [*placed(0, 1), *placed(2), *placed(3)]
    assert moved(store, digest_of(placed(0, 1))) == [*placed(2), *placed(3)]
    assert moved(store, digest_of([*placed(0, 1), *placed(2), *placed(3)])) == []


@pytest.mark.parametrize(
    "there",
    [placed(5), placed(0), [*placed(0, 1), *placed(2), *placed(3)]],
)
def test_a_move_is_refused_if_the_topic_has_something_else(there: list[PlacedRecord]) -> None:
    store = new_store()
    append(store, record(0), record(1))
    append(store, record(2))
    with pytest.raises(MoveRefused, match="not the beginning"):
        moved(store, digest_of(there))


@attrs.define
class Contents:
    """Takes the place of the topics: one partition has these records."""

    given: list[PlacedRecord]
    ends: dict[int, int]
    claims: dict[int, Claim]
    digests: dict[TopicPartition, LogDigest] = attrs.field(factory=lambda: {P0: LogDigest()})

    def records(self, on_claim: Any) -> Iterator[tuple[TopicPartition, PlacedRecord]]:
        for each in self.given:
            self.digests[P0].add(each)
            yield P0, each
        for claim in self.claims.values():
            on_claim(P0, claim)


def test_a_folder_continues_above_all_that_nodes_have_given_out() -> None:
    claim = Claim(
        epoch=2, node_id="n1", address="", producers=1, first_offset=0, shift=100, is_released=True
    )
    contents: Any = Contents([*placed(3, 4), *placed(9)], {0: 50}, {0: claim})
    store = new_store()
    [outcome] = move_out(contents, store, lambda *_: None)
    assert outcome.problem is None
    assert store.log(P0).offset_next == 150
    assert outcome.source.end_offset == 150
    assert list(log_batches(P0, store.log(P0), has_keys=True)) == [placed(3, 4), placed(9)]


def test_a_log_that_ends_above_kafkas_end_goes_on_there() -> None:
    contents: Any = Contents(placed(70), {0: 50}, {})
    store = new_store()
    move_out(contents, store, lambda *_: None)
    assert store.log(P0).offset_next == 71


def test_no_node_accepts_a_topic_that_is_being_filled() -> None:
    need = TopicNeed(
        name="t",
        partitions=1,
        replication_factor=1,
        exact={},
        least={"min.compaction.lag.ms": 5, "retention.ms": 7},
    )
    settings = {"min.compaction.lag.ms": str(FILLING_LAG_MS), "retention.ms": "-1"}
    found = FoundTopic(topic_id="", partitions=1, replication_factor=1, settings=settings)
    [why] = weaknesses(need, found)
    assert "is being filled by offsetd cluster init" in why
    opened_again = attrs.evolve(found, settings={**settings, "min.compaction.lag.ms": "5"})
    assert list(weaknesses(need, opened_again)) == []
    never = attrs.evolve(need, least={"retention.ms": -1})
    assert list(weaknesses(never, opened_again)) == []
    assert list(weaknesses(never, attrs.evolve(found, settings={"retention.ms": "9"}))) != []

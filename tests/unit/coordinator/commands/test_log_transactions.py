"""`offsetd log transactions`: open transactions are listed, and aborted by a marker."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from log_commands import Outcome, offsetd_log, tree
from offsetd_clients.cli.printing.terminal import OutputFormat
from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = SystemClock().now_ms()
P0, P1 = (TopicPartition("__consumer_offsets", each) for each in range(2))
AUDIT = TopicPartition("__offsetd_audit", 0)
CONFIG = LogStoreConfig(
    partitions=2, journal_file_bytes=2 << 20, log=LogConfig(cleanup_policy=COMPACT)
)
CONTROL_KEY, CONTROL_VALUE = b"\0\0\0\0", b"\0\0\0\0\0\0"  # Version 0, abort; the coordinator's.


def opened(folder: Path) -> LogStore:
    return LogStore.open(OsFiles(), folder, CONFIG, clock=SystemClock(), random=random.Random(7))


def commit(store: LogStore, at: TopicPartition, producer_id: int, group: str) -> None:
    """A commit in a transaction; -1: in none."""
    record = Record(
        key=encode_key(OffsetKey(group=group, topic="orders", partition=0)),
        value=OffsetCommitValue(offset=7, commit_timestamp_ms=NOW_MS).encode(3),
        offset=store.log(at).offset_next,
        timestamp_ms=NOW_MS,
    )
    store.append(
        at,
        encode_batch(
            [record],
            base_offset=record.offset,
            producer_id=producer_id,
            producer_epoch=3 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            is_transactional=producer_id >= 0,
        ),
        last_offset=record.offset,
        max_timestamp_ms=NOW_MS,
    )
    store.flush()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Producer 4000 has transactions open in both partitions, 5000 in one; others have ended."""
    folder = tmp_path / "offsets"
    store = opened(folder)
    commit(store, P0, -1, "plain")
    commit(store, P0, 4000, "billing")
    commit(store, P0, 4000, "shipping")
    commit(store, P0, 5000, "other")
    commit(store, P1, 4000, "billing")
    commit(store, P0, -1, "plain")
    store.close()
    return folder


def transactions(folder: Path, *arguments: str) -> tuple[Outcome, list[Any]]:
    outcome = offsetd_log(
        "transactions", *arguments, "--data-dir", str(folder), output=OutputFormat.JSON
    )
    return outcome, json.loads(outcome.out or "[]")


def open_ones(folder: Path) -> list[tuple[int, int, int]]:
    _, rows = transactions(folder, "list")
    return [(row["partition"], row["producer_id"], row["first_offset"]) for row in rows]


def test_open_transactions_are_listed_and_nothing_is_changed(folder: Path) -> None:
    before = tree(folder)
    outcome, rows = transactions(folder, "list")
    assert outcome.code == 0, outcome.err
    assert [
        (row["partition"], row["producer_id"], row["first_offset"], row["offsets"], row["groups"])
        for row in rows
    ] == [
        (0, 4000, 1, 2, ["billing", "shipping"]),
        (0, 5000, 3, 1, ["other"]),
        (1, 4000, 0, 1, ["billing"]),
    ]
    assert {row["producer_epoch"] for row in rows} == {3}
    assert tree(folder) == before


def test_an_abort_is_shown_first_and_then_done(folder: Path) -> None:
    before = tree(folder)
    outcome, shown = transactions(folder, "abort", "--producer-id", "4000")
    assert outcome.code == 0, outcome.err
    assert "nothing was changed: repeat with --execute" in outcome.err
    assert tree(folder) == before
    outcome, done = transactions(folder, "abort", "--producer-id", "4000", "--execute")
    assert (outcome.code, done) == (0, shown), outcome.err
    assert open_ones(folder) == [(0, 5000, 3)]
    store = opened(folder)
    (marker,) = decode_batches(store.log(P1).read(1, bytes_max=1 << 20))
    assert (marker.producer_id, marker.producer_epoch) == (4000, 3)
    assert marker.is_control
    assert marker.is_transactional
    assert [(each.key, each.value) for each in marker.records] == [(CONTROL_KEY, CONTROL_VALUE)]
    (event,) = (
        AuditEvent.decode(record.value or b"", time_ms=record.timestamp_ms)
        for batch in decode_batches(store.log(AUDIT).read(0, bytes_max=1 << 20))
        for record in batch.records
    )
    store.close()
    assert event.method == "AbortTransactions"
    assert event.what["producer_id"] == 4000
    assert [each["partition"] for each in event.what["transactions"]] == [0, 1]


def test_only_the_named_partition_is_aborted(folder: Path) -> None:
    arguments = ("abort", "--producer-id", "4000", "--partition", "1", "--execute")
    outcome, _ = transactions(folder, *arguments)
    assert outcome.code == 0, outcome.err
    assert open_ones(folder) == [(0, 4000, 1), (0, 5000, 3)]


def test_what_is_not_there_is_refused_with_nothing_changed(folder: Path) -> None:
    before = tree(folder)
    outcome, _ = transactions(folder, "abort", "--producer-id", "4711", "--execute")
    assert outcome.code == 1
    assert "producer 4711 has no open transaction; nothing was changed" in outcome.err
    outcome, _ = transactions(folder, "abort", "--producer-id", "4000", "--dry-run", "--execute")
    assert outcome.code == 2
    assert tree(folder) == before


def test_a_brokers_folder_is_only_listed(folder: Path) -> None:
    for name in ("offsetd.properties", "offsetd-journal-0", "offsetd-journal-1"):
        (folder / name).unlink()
    before = tree(folder)
    assert len(open_ones(folder)) == 3
    outcome, _ = transactions(folder, "abort", "--producer-id", "4000", "--execute")
    assert outcome.code == 1
    assert "kafka-transactions.sh" in outcome.err
    assert tree(folder) == before

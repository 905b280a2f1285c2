"""Tables of random logs say what a shard knows that replayed them, and what their records say."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from kafka_dumps import time_of
from log_stores import seeded
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.state.group_search import GroupSearch, found_groups
from offsetd_coordinator.state.leases import Leases
from offsetd_coordinator.state.offset_table import fresh_hash_seeds
from offsetd_coordinator.state.replayed_state import ReplayedState
from offsetd_pipeline.source import OffsetdSource
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic.schemas.keys import (
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    decode_key,
)
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.transaction_marker import decode_transaction_marker
from offsets_logs import marker_batch, offset_batch, random_log, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.batch.record_batch import Record, RecordBatch

pytestmark = pytest.mark.kernel

LOGS = 40
BATCHES = 120


def table(folder: Path, mode: str, **options: str) -> list[dict[str, Any]]:
    """As executors read it."""
    source = OffsetdSource({"path": str(folder), "mode": mode, **options})
    reader = source.reader(source.schema())
    return [
        {name: without_zone(value) for name, value in row.items()}
        for work in reader.partitions()
        for batch in reader.read(work)
        for row in batch.to_pylist()
    ]


def without_zone(value: Any) -> Any:
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def replayed(batches: list[bytes]) -> ReplayedState:
    state = ReplayedState(
        request_window_ms=0, request_ids_max=0, deletion_bytes_max=0, hash_seeds=fresh_hash_seeds()
    )
    content = b"".join(batches)
    state.replay(padded_copy(content), 0, len(content))
    return state


def known_offsets(state: ReplayedState) -> list[dict[str, Any]]:
    return [
        {
            "group": group.decode(),
            "topic": each.topic.decode(),
            "partition": each.partition,
            "offset": each.offset if each.is_decodable else None,
            "leader_epoch": each.leader_epoch if known(each.leader_epoch, each) else None,
            "metadata": each.metadata.decode() if each.is_decodable else None,
            "commit_time": time_of(each.commit_timestamp_ms) if each.is_decodable else None,
            "expire_time": time_of(each.expire_timestamp_ms) if each.is_decodable else None,
            "log_partition": 0,
            "log_offset": each.revision,
        }
        for group in state.offsets.group_ids()
        for each in state.offsets.read_group(group)
    ]


def known(number: int, each: Any) -> bool:
    return bool(each.is_decodable and number >= 0)


def known_groups(state: ReplayedState) -> dict[str, tuple[Any, ...]]:
    # A group that is only in an open transaction is not a group of the log yet.
    found = {}
    parts = found_groups(state, Leases(state.known_group_records), GroupSearch(), Moment(0, 0))
    for group in chain.from_iterable(parts):
        records = state.group_records(group)
        count = state.offsets.count(group)
        if not count and records.group_type is None:
            continue
        described = records.describe(count) if records.is_readable else None
        found[group.decode()] = (
            None if described is None else described.state.name,
            None if described is None else described.generation,
            None if described is None else [member.member_id for member in described.members],
            count,
            None if records.settings is None else records.settings.retention_ms,
        )
    return found


def raw_rows(batches: list[bytes]) -> list[dict[str, Any]]:
    return [
        {
            "log_offset": record.offset,
            "timestamp": time_of(record.timestamp_ms),
            "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
            "producer_epoch": batch.producer_epoch if batch.producer_id >= 0 else None,
            "sequence": sequence(batch, record),
            "is_transactional": batch.is_transactional,
            "is_control": batch.is_control,
            "compression": batch.compression.name.lower(),
            "timestamp_type": ("create", "append")[batch.timestamp_type],
            "delete_horizon": time_of(horizon(batch)),
            "is_tombstone": record.value is None,
            "key": record.key,
            "value": record.value,
            **content(batch, record),
        }
        for batch in decode_batches(b"".join(batches))
        for record in batch.records
    ]


def horizon(batch: RecordBatch) -> int:
    return -1 if batch.delete_horizon_ms is None else batch.delete_horizon_ms


def sequence(batch: RecordBatch, record: Record) -> int | None:
    if batch.base_sequence < 0:
        return None
    return (batch.base_sequence + record.offset - batch.base_offset) % (1 << 31)


def content(batch: RecordBatch, record: Record) -> dict[str, Any]:
    """What the schemas read from key and value."""
    names = ("group", "topic", "partition", "offset", "metadata", "commit_time", "expire_time")
    row: dict[str, Any] = dict.fromkeys(names)
    if batch.is_control:
        return row
    try:
        key = decode_key(record.key or b"")
        if isinstance(key, GroupKey | GroupSettingsKey):
            row["group"] = key.group
        if isinstance(key, OffsetKey):
            row |= {"group": key.group, "topic": key.topic, "partition": key.partition}
            if record.value is not None:
                value = OffsetCommitValue.decode(record.value)
                row |= {
                    "offset": value.offset,
                    "metadata": value.metadata,
                    "commit_time": time_of(value.commit_timestamp_ms),
                    "expire_time": time_of(value.expire_timestamp_ms),
                }
    except UndecodableRecord:
        pass
    return row


@pytest.mark.slow
@pytest.mark.parametrize("log", range(LOGS))
def test_tables_agree_with_replay_and_schemas(tmp_path: Path, log: int) -> None:
    chance = seeded()
    batches = random_log(chance, batches=BATCHES)
    write_log(tmp_path, batches, segments=chance.choice((1, 3)))
    small_ranges = {"range_bytes": str(chance.choice((1, 1 << 20)))}

    expected = raw_rows(batches)
    found = table(tmp_path, "raw", **small_ranges)
    assert [{name: row[name] for name in expected[0]} for row in found] == expected

    state = replayed(batches)
    current = table(tmp_path, "current")
    assert sorted(map(repr, current)) == sorted(map(repr, known_offsets(state)))

    groups = {
        row["group"]: (
            row["state"],
            row["generation"],
            None if row["members"] is None else [each["member_id"] for each in row["members"]],
            row["offset_count"],
            row["retention_ms"],
        )
        for row in table(tmp_path, "groups")
    }
    assert groups == known_groups(state)
    history = table(tmp_path, "history", **small_ranges)
    check_history(history, current)
    outcomes = outcomes_of(batches)
    assert {row["log_offset"]: row["transaction"] for row in history} == {
        row["log_offset"]: outcomes.get(row["log_offset"]) for row in history
    }


def outcomes_of(batches: list[bytes]) -> dict[int, str]:
    """What became of each record that a transaction wrote, by its log offset."""
    found: dict[int, str] = {}
    waiting: dict[int, list[int]] = {}
    for batch in decode_batches(b"".join(batches)):
        if batch.is_control:
            marker = decode_transaction_marker(batch.records[0].key or b"", batch.records[0].value)
            assert marker is not None
            word = {"COMMIT": "committed", "ABORT": "aborted"}[marker.control_type.name]
            found |= dict.fromkeys(waiting.pop(batch.producer_id, []), word)
        elif batch.is_transactional:
            offsets = [record.offset for record in batch.records]
            waiting.setdefault(batch.producer_id, []).extend(offsets)
    return found | {offset: "open" for offsets in waiting.values() for offset in offsets}


def check_history(history: list[dict[str, Any]], current: list[dict[str, Any]]) -> None:
    """That what counts of the changes leaves what is current."""
    newest = {}
    for row in history:
        if row["transaction"] in (None, "committed") or row["kind"] == "deleted":
            newest[row["group"], row["topic"], row["partition"]] = row
    left = {key: row["log_offset"] for key, row in newest.items() if row["kind"] != "deleted"}
    assert left == {
        (row["group"], row["topic"], row["partition"]): row["log_offset"] for row in current
    }


@pytest.mark.parametrize("end", ["committed", "aborted", "open"])
def test_the_end_of_a_transaction_is_found_behind_its_range_of_segments(
    tmp_path: Path, end: str
) -> None:
    batches = [
        offset_batch("g", 0, producer_id=7),
        offset_batch("h", 1),
        offset_batch("h", 2),
        offset_batch("h", 3) if end == "open" else marker_batch(end, 3, producer_id=7),
    ]
    write_log(tmp_path, batches, segments=4)
    rows = table(tmp_path, "history", range_bytes="1")
    assert {row["transaction"] for row in rows if row["group"] == "g"} == {end}
    assert {row["transaction"] for row in rows if row["group"] == "h"} == {None}

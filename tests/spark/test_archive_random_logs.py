"""Archives of random logs have each change once, and the state that a model has of any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka_dumps import time_of
from log_stores import seeded
from offsetd_pipeline.archive import archive, read_archive
from offsetd_pipeline.archive.archive_table import state_of
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.transaction_marker import (
    ControlType,
    decode_transaction_marker,
)
from offsets_logs import random_log, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.batch.record_batch import Record
    from pyspark.sql import DataFrame, SparkSession

LOGS = 3
BATCHES = 120
RUNS = 3
TIMES = 2

Key = tuple[str, str, int]


class Changes:
    """What a log says of offsets, record by record."""

    def __init__(self, batches: list[bytes]) -> None:
        self.kinds: dict[int, str] = {}
        self.records: dict[int, tuple[Key, Record]] = {}
        # From when on a record counts, ms; those of transactions that took it back have none.
        self.counts_from: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        waiting: dict[int, list[int]] = {}
        for batch in decode_batches(b"".join(batches)):
            if batch.is_control:
                [record] = batch.records
                marker = decode_transaction_marker(record.key or b"", record.value)
                assert marker is not None
                written = waiting.pop(batch.producer_id, [])
                self.ended |= dict.fromkeys(written, record.timestamp_ms)
                if marker.control_type is ControlType.COMMIT:
                    for offset in written:
                        written_ms = self.records[offset][1].timestamp_ms
                        self.counts_from.setdefault(offset, max(record.timestamp_ms, written_ms))
                continue
            for record in batch.records:
                if not self._take(record):
                    continue
                if not batch.is_transactional or self.kinds[record.offset] == "deleted":
                    self.counts_from[record.offset] = record.timestamp_ms
                if batch.is_transactional:
                    waiting.setdefault(batch.producer_id, []).append(record.offset)
        still_open = [offset for offsets in waiting.values() for offset in offsets]
        self.first_open = min(still_open, default=None)

    def _take(self, record: Record) -> bool:
        try:
            key = decode_key(record.key or b"")
        except UndecodableRecord:
            return False
        if not isinstance(key, OffsetKey):
            return False
        kind = "deleted"
        if record.value is not None:
            try:
                OffsetCommitValue.decode(record.value)
                kind = "committed"
            except UndecodableRecord:
                kind = "unreadable"
        self.kinds[record.offset] = kind
        self.records[record.offset] = (key.group, key.topic, key.partition), record
        return True

    def state(self, below: int, at_ms: int | None) -> dict[Key, tuple[Any, ...]]:
        """By key: log offset, kind, and what was committed."""
        newest: dict[Key, int] = {}
        for offset, since in sorted(self.counts_from.items()):
            if offset < below and (at_ms is None or since <= at_ms):
                newest[self.records[offset][0]] = offset
        return {
            key: (offset, self.kinds[offset], *committed(self.records[offset][1]))
            for key, offset in newest.items()
            if self.kinds[offset] != "deleted"
        }


def committed(record: Record) -> tuple[Any, ...]:
    try:
        value = OffsetCommitValue.decode(record.value or b"")
    except UndecodableRecord:
        return None, None, None, None, None
    return (
        value.offset,
        value.leader_epoch if value.leader_epoch >= 0 else None,
        value.metadata,
        time_of(value.commit_timestamp_ms),
        time_of(value.expire_timestamp_ms),
    )


def state_by_key(state: DataFrame) -> dict[Key, tuple[Any, ...]]:
    rows = state.collect()
    found = {
        (row.group, row.topic, row.partition): (
            *(row.log_offset, row.kind, row.offset, row.leader_epoch, row.metadata),
            *(row.commit_time, row.expire_time),
        )
        for row in rows
    }
    assert len(found) == len(rows)
    return found


@pytest.mark.usefixtures("in_utc")
@pytest.mark.parametrize("log", range(LOGS))
def test_each_change_is_archived_once_and_every_time_has_its_state(
    spark: SparkSession, tmp_path: Path, log: int
) -> None:
    chance = seeded()
    batches = random_log(chance, batches=BATCHES)
    to = tmp_path / "archive"
    end = 0
    sizes = sorted(chance.sample(range(1, BATCHES), RUNS - 1))
    for run, size in enumerate([*sizes, BATCHES]):
        folder = tmp_path / f"copy-{run}"
        write_log(folder, batches[:size], segments=chance.choice((1, 3)))
        # By its place a copy without properties is taken for another server's.
        (folder / "meta.properties").write_text("cluster.id=c\n")
        archived = archive(spark, [folder], to)
        changes = Changes(batches[:size])
        if archived.manifest is not None:
            end = archived.manifest.positions[0].log_offset
        first_open = changes.first_open
        assert [each.log_offset for each in archived.held_up] == (
            [] if first_open is None else [first_open]
        )
        assert end == (last_of(batches[:size]) + 1 if first_open is None else first_open)

    rows = read_archive(spark, to)
    places = [(row.log_partition, row.log_offset) for row in rows.collect()]
    assert sorted(places) == sorted((0, offset) for offset in changes.kinds if offset < end)
    assert state_by_key(state_of(rows)) == changes.state(end, None)
    for _ in range(TIMES):
        since = list(changes.counts_from.values())
        at_ms = chance.choice(since) + chance.choice((-1, 0, 1))
        assert state_by_key(state_of(rows, at_ms)) == changes.state(end, at_ms), at_ms


def last_of(batches: list[bytes]) -> int:
    """The last log offset that a log's batches cover."""
    *_, last = decode_batches(batches[-1])
    return last.last_offset

"""The batches of a stream, however they are cut, come to what the table has of the same folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from log_stores import seeded
from offsetd_pipeline.source import OffsetdSource
from offsetd_storage.batch.record_batch import batch_header
from offsets_logs import random_log
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

LOGS = 8
BATCHES = 40
PARTITIONS = 3
STEPS_MAX = 5_000


class GrowingFolder:
    """A broker's folder to which batches are added, with new segments and new logs."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder = folder
        self.chance = chance
        cleaned = chance.random() < 0.5
        self.left = [random_log(chance, batches=BATCHES, cleaned=False) for _ in range(PARTITIONS)]
        self.segments: dict[int, Path] = {}
        self.ends: dict[int, int] = {}  # Of the logs, which may end with batches without records.
        if cleaned:  # What is there when the stream begins.
            self.left[0] = random_log(chance, batches=BATCHES)
            self.grow(0, BATCHES)
        else:
            self.grow(0, chance.randrange(1, BATCHES))

    def grow(self, partition: int, count: int) -> None:
        added, self.left[partition] = self.left[partition][:count], self.left[partition][count:]
        for batch in added:
            if partition not in self.segments or self.chance.random() < 0.1:
                base_offset = int.from_bytes(batch[:8], "big")
                log = self.folder / f"__consumer_offsets-{partition}"
                log.mkdir(parents=True, exist_ok=True)
                self.segments[partition] = log / f"{base_offset:020d}.log"
            with self.segments[partition].open("ab") as segment:
                segment.write(batch)
            self.ends[partition] = batch_header(batch).last_offset + 1

    def grow_somewhere(self) -> None:
        self.grow(self.chance.randrange(PARTITIONS), self.chance.choice((0, 1, 5, 20)))

    @property
    def is_whole(self) -> bool:
        return not any(self.left)


def source(folder: Path, mode: str, **options: str) -> OffsetdSource:
    return OffsetdSource({"path": str(folder), "mode": mode, **options})


def rows_of(reader: Any, works: Any) -> list[dict[str, Any]]:
    return [row for work in works for batch in reader.read(work) for row in batch.to_pylist()]


def table(folder: Path, mode: str) -> list[dict[str, Any]]:
    found = source(folder, mode)
    reader = found.reader(found.schema())
    return rows_of(reader, reader.partitions())


def by_place(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((row["log_partition"], row["log_offset"]) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["history", "raw"])
@pytest.mark.parametrize("log", range(LOGS))
def test_the_batches_of_a_stream_come_to_what_the_table_has(
    tmp_path: Path, log: int, mode: str
) -> None:
    chance = seeded()
    growing = GrowingFolder(tmp_path, chance)
    options = {"range_bytes": chance.choice(("1", "3000", "1000000"))}
    batch_source = source(tmp_path, mode, **options)
    stream: Any = batch_source.streamReader(batch_source.schema())
    position = stream.initialOffset()
    limit_max = chance.choice((5, 40, 10_000))
    said: list[dict[str, Any]] = []
    for _ in range(STEPS_MAX):
        if chance.random() < 0.1:  # Killed: only positions are left.
            stream = batch_source.streamReader(batch_source.schema())
        was_whole = growing.is_whole
        limit = ReadMaxRows(chance.randrange(1, limit_max + 1))
        end = stream.latestOffset(position, limit)
        assert end == stream.latestOffset(position, limit)
        rows = rows_of(stream, stream.partitions(position, end))
        assert len(rows) <= limit.max_rows
        if chance.random() < 0.1:
            other: Any = batch_source.streamReader(batch_source.schema())
            growing.grow_somewhere()
            again = rows_of(other, other.partitions(position, end))
            assert sorted(map(repr, again)) == sorted(map(repr, rows)), "not the same rows again"
        said += rows
        if chance.random() < 0.7:
            stream.commit(end)
        if end == position and was_whole:
            break
        position = end
        growing.grow_somewhere()
    else:
        pytest.fail("the stream never comes to an end")

    whole = table(tmp_path, mode)
    if mode == "history":
        whole = before_what_is_open(whole, table(tmp_path, "raw"), growing.ends, position)
    assert by_place(said) == by_place(whole)
    assert sorted(map(repr, said)) == sorted(map(repr, whole))
    assert stream.latestOffset(position, ReadAllAvailable()) == position


def before_what_is_open(
    rows: list[dict[str, Any]],
    records: list[dict[str, Any]],
    ends: dict[int, int],
    position: dict[str, Any],
) -> list[dict[str, Any]]:
    """The rows that a stream may say; and that it has come as far as it may."""
    kept = []
    for partition in {row["log_partition"] for row in records}:
        there = [row for row in records if row["log_partition"] == partition]
        stable = stable_end(there, ends[partition])
        assert position[str(partition)] <= stable
        # It may stand before a gap that ends there.
        left = [row for row in there if position[str(partition)] <= row["log_offset"] < stable]
        assert left == []
        mine = [row for row in rows if row["log_partition"] == partition]
        kept += [row for row in mine if row["log_offset"] < stable]
        assert all(row["transaction"] != "open" for row in kept)
    return kept


def stable_end(records: list[dict[str, Any]], log_end: int) -> int:
    """Where the first transaction begins that has no end; else the log's end."""
    waiting: dict[int, int] = {}
    records = sorted(records, key=lambda row: int(row["log_offset"]))
    for row in records:
        if row["is_control"]:
            waiting.pop(row["producer_id"], None)
        elif row["is_transactional"]:
            waiting.setdefault(row["producer_id"], row["log_offset"])
    return int(min(waiting.values(), default=log_end))

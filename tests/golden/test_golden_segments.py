"""Logs against segments that Kafka wrote: a broker, and its `LogSegment` in all ways to roll."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from changed_configs import with_settings
from offsetd_storage.batch.record_batch import batch_header, decode_batches
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC_LOG_CONFIG, LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.segment_files import segment_path
from partition_logs import (
    GOLDEN,
    GOLDEN_PARTITIONS,
    NOW_MS,
    append,
    contents,
    created,
    everything,
    opened,
)

if TYPE_CHECKING:
    from pathlib import Path


def golden_copy(tmp_path: Path, partition: str) -> Path:
    folder = tmp_path / partition
    shutil.copytree(GOLDEN / partition, folder)
    return folder


@pytest.mark.parametrize("partition", GOLDEN_PARTITIONS)
def test_the_index_bytes_are_those_a_broker_wrote(partition: str, tmp_path: Path) -> None:
    folder = golden_copy(tmp_path, partition)
    log = opened(OsFiles(), folder, config=OFFSETS_TOPIC_LOG_CONFIG, synced=True)
    (segment,) = log.segments
    assert segment.offset_index.entries == (folder / f"{0:020d}.index").read_bytes()
    assert segment.time_index.entries == (folder / f"{0:020d}.timeindex").read_bytes()
    assert not log.has_unsynced
    log.close()
    assert contents(OsFiles(), folder) == contents(OsFiles(), GOLDEN / partition)


@pytest.mark.parametrize("partition", GOLDEN_PARTITIONS)
def test_appends_go_on_behind_a_brokers_last_offset(partition: str, tmp_path: Path) -> None:
    folder = golden_copy(tmp_path, partition)
    before = contents(OsFiles(), folder)
    log = opened(OsFiles(), folder, config=OFFSETS_TOPIC_LOG_CONFIG)
    timestamp_ms = log.segments[-1].largest_timestamp_ms + 1
    batches = [append(log, timestamp_ms=timestamp_ms, size_bytes=5000) for _ in range(3)]
    log.close()
    after = contents(OsFiles(), folder)
    name = f"{0:020d}.log"
    assert after.pop(name) == before.pop(name) + b"".join(batches)
    assert after.pop(f"{0:020d}.index").startswith(before.pop(f"{0:020d}.index"))
    del after[f"{0:020d}.timeindex"], before[f"{0:020d}.timeindex"]
    assert after == before
    again = opened(OsFiles(), folder, config=OFFSETS_TOPIC_LOG_CONFIG, synced=True)
    assert not again.has_unsynced
    assert everything(again)[-15_000:] == b"".join(batches)


def test_a_killed_brokers_preallocated_indexes_are_trimmed(tmp_path: Path) -> None:
    folder = golden_copy(tmp_path, "__consumer_offsets-33")
    before = contents(OsFiles(), folder)
    for suffix, size in ((".index", 10_485_760), (".timeindex", 10_485_756)):
        with segment_path(folder, 0, suffix).open("r+b") as file:
            file.truncate(24 if suffix == ".timeindex" else 16)  # No last time entry yet.
            file.truncate(size)
    log = opened(OsFiles(), folder, config=OFFSETS_TOPIC_LOG_CONFIG)
    assert log.index_problems == ()
    log.close()
    assert contents(OsFiles(), folder) == before


KAFKA_SEGMENTS = GOLDEN.parent.parent / "kafka-4.1.1-segments"
SEGMENT_CASES = sorted(path.name for path in KAFKA_SEGMENTS.iterdir() if path.is_dir())


def kafka_config(path: Path) -> LogConfig:
    """The settings of a properties file, by Kafka's names."""
    settings = dict(line.split("=") for line in path.read_text().split())
    return with_settings(LogConfig(), settings)


@pytest.mark.parametrize("case", SEGMENT_CASES)
def test_segments_and_indexes_are_byte_for_byte_what_kafkas_own_class_writes(case: str) -> None:
    expected = contents(OsFiles(), KAFKA_SEGMENTS / case)
    del expected["config.properties"]
    written = b"".join(raw for name, raw in sorted(expected.items()) if name.endswith(".log"))
    files = SimulatedFiles()
    log = created(
        files,
        config=kafka_config(KAFKA_SEGMENTS / case / "config.properties"),
        base_offset=batch_header(written).base_offset,
    )
    for place, batch in enumerate(decode_batches(written)):
        raw, written = written[: batch.size_bytes], written[batch.size_bytes :]
        log.append(
            raw,
            last_offset=batch.last_offset,
            max_timestamp_ms=batch.max_timestamp_ms,
            now_ms=NOW_MS,
        )
        if place % 7 == 0:
            log.write()
        if place % 11 == 0:
            log.sync()
    log.close()
    found = contents(files)
    del found["leader-epoch-checkpoint"]
    assert found == expected

"""Kafka's own retention deletes the segments that our plan names, over drawn logs."""

import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from changed_configs import with_settings
from interop.requirements import no_kafka
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.retention.retention_rules import SegmentFigures, plan_retention

from deploy.kafka.kafka_runtime import KafkaUnavailable, LocalRuntime

pytestmark = pytest.mark.kafka

HARNESS = Path(__file__).with_name("KafkaRetention.java")
CASES = 400
NOW_MS = 1_700_000_000_000
LIMIT_MS = 60_000
# Around the limit, by a millisecond; far behind it; in the future. None: no timestamps.
AGES_MS = (LIMIT_MS - 1, LIMIT_MS, LIMIT_MS + 1, 2 * LIMIT_MS, 0, -5, -LIMIT_MS, NOW_MS)


@attrs.frozen(kw_only=True)
class Case:
    """A log, and what its retention is asked with."""

    segments: list[SegmentFigures]
    contents: list[bytes]
    settings: dict[str, str]
    log_start_offset: int
    high_watermark: int

    def write(self, folder: Path) -> dict[str, Any]:
        """Puts the segments there; returns what Kafka is to be asked."""
        folder.mkdir(parents=True)
        for segment, content in zip(self.segments, self.contents, strict=True):
            path = segment_path(folder, segment.base_offset)
            path.write_bytes(content)
            os.utime(path, ns=(0, segment.modified_ms * 1_000_000))
        return {
            "folder": str(folder),
            "config": self.settings,
            "log_start_offset": self.log_start_offset,
            "high_watermark": self.high_watermark,
            "now_ms": NOW_MS,
        }


def batch(random: Random, base_offset: int, age_ms: int | None) -> bytes:
    record = Record(
        key=b"k",
        value=b"v" * random.randrange(40),
        offset=base_offset,
        timestamp_ms=-1 if age_ms is None else NOW_MS - age_ms,
    )
    return encode_batch([record], base_offset=base_offset)


def drawn(random: Random) -> Case:
    """Segments mostly older than the limit, of a few batches; the last one may be empty."""
    segments, contents = [], []
    offset = 0
    count = random.randrange(1, 8)
    mostly = random.choice(AGES_MS)
    for place in range(count):
        base_offset = offset
        batches = []
        largest_ms = -1
        is_empty = place == count - 1 and random.random() < 0.3
        for _ in range(0 if is_empty else random.randrange(1, 4)):
            age_ms = random.choice([mostly, mostly, mostly, None, *AGES_MS])
            batches.append(batch(random, offset, age_ms))
            largest_ms = max(largest_ms, -1 if age_ms is None else NOW_MS - age_ms)
            offset += random.choice([1, 1, 1, 5])  # Cleaning leaves gaps.
        segments.append((base_offset, largest_ms, NOW_MS - random.choice(AGES_MS)))
        contents.append(b"".join(batches))
        log_end = offset if is_empty else base_offset + _offsets(batches)
        if place < count - 1:
            offset = max(offset, log_end)
    ends = [base_offset for base_offset, *_ in segments[1:]] + [log_end]
    figures = [
        SegmentFigures(
            base_offset=base_offset,
            offset_next=end,
            size_bytes=len(content),
            largest_timestamp_ms=largest_ms,
            modified_ms=modified_ms,
        )
        for (base_offset, largest_ms, modified_ms), end, content in zip(
            segments, ends, contents, strict=True
        )
    ]
    log_start_offset = random.choice([0, 0, random.randrange(log_end + 1)])
    size_bytes = sum(map(len, contents))
    limits_bytes = [-1, -1, 0, size_bytes, size_bytes - len(contents[0]), size_bytes // 2]
    return Case(
        segments=figures,
        contents=contents,
        settings={
            "cleanup.policy": random.choice(["delete", "delete", "compact,delete", "compact", ""]),
            "retention.ms": str(random.choice([LIMIT_MS, LIMIT_MS, -1, 0])),
            "retention.bytes": str(random.choice(limits_bytes) + random.choice([0, 0, 1, -1])),
        },
        log_start_offset=log_start_offset,
        high_watermark=max(
            log_start_offset, random.choice([log_end, log_end, random.randrange(log_end + 1)])
        ),
    )


def _offsets(batches: list[bytes]) -> int:
    """From the first batch's offset to behind the last one's."""
    first, last = (int.from_bytes(each[:8], "big") for each in (batches[0], batches[-1]))
    return last + 1 - first


@pytest.fixture(scope="module")
def runtime() -> LocalRuntime:
    """Kafka's jars, and a JDK to run a source file."""
    if shutil.which("javac") is None:
        no_kafka("no JDK (javac)")
    try:
        return LocalRuntime.install()
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))


def test_kafka_deletes_the_segments_that_are_planned(
    runtime: LocalRuntime, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    cases = [drawn(random) for _ in range(CASES)]
    asked = [case.write(tmp_path / str(place) / "t-0") for place, case in enumerate(cases)]
    question, answer = tmp_path / "asked.json", tmp_path / "answered.json"
    question.write_text(json.dumps(asked))
    runtime.run(str(HARNESS), [str(question), str(answer)], tmp_path)
    deletions = rolls = 0
    for case, answered in zip(cases, json.loads(answer.read_text()), strict=True):
        assert "error" not in answered, f"{answered['error']}: {case}"
        bases = [segment.base_offset for segment in case.segments]
        assert answered["before"] == bases
        config = with_settings(LogConfig(retention_age_from_roll=False), case.settings)
        plan = plan_retention(
            case.segments,
            config,
            log_start_offset=case.log_start_offset,
            high_watermark=case.high_watermark,
            now_ms=NOW_MS,
        )
        left = bases[len(plan.deletions) :] or [case.segments[-1].offset_next]
        planned = (len(plan.deletions), left, plan.log_start_offset)
        done = (answered["deleted"], answered["after"], answered["log_start_offset"])
        assert planned == done, f"planned {planned}, but Kafka did {done}: {case}"
        deletions += len(plan.deletions)
        rolls += plan.rolls_active
    assert deletions > CASES / 2
    assert rolls > 0

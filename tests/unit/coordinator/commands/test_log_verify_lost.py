"""`offsetd log verify` finds what a start would not find, or would warn of."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from log_commands import Outcome, offsetd_log
from offsetd_clients.cli.printing.terminal import OutputFormat
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_TOPIC, CONFIG_TOPIC
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig, TopicSpec

CONFIG = LogStoreConfig(
    partitions=2,
    journal_file_bytes=2 << 20,
    other_topics=tuple(
        TopicSpec(topic=topic, partitions=1, log=LogConfig())
        for topic in (AUDIT_TOPIC, CONFIG_TOPIC)
    ),
)
PROPERTIES, LOG = "offsetd.properties", f"{0:020d}.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that was closed, with a record in each log."""
    folder = tmp_path / "offsets"
    clock = SystemClock()
    store = LogStore.open(OsFiles(), folder, CONFIG, clock=clock, random=random.Random(7))
    for each in store.logs:
        record = Record(key=b"\0\x63", value=b"v", offset=0, timestamp_ms=clock.now_ms())
        store.produce(each, encode_batch([record], base_offset=0))
    store.close()
    return folder


def verify(folder: Path) -> tuple[Outcome, dict[str, tuple[str, str]]]:
    outcome = offsetd_log("verify", "--data-dir", str(folder), output=OutputFormat.JSON)
    rows: list[Any] = json.loads(outcome.out or "[]")
    return outcome, {row["file"]: (row["severity"], row["reason"]) for row in rows}


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def flip_last_frame(folder: Path) -> None:
    newest = max(
        (folder / "offsetd-journal-0", folder / "offsetd-journal-1"),
        key=lambda path: path.read_bytes()[64:72],
    )
    flip(newest, len(newest.read_bytes().rstrip(b"\0")) - 5)


def test_a_folder_that_is_whole_has_no_finding(folder: Path) -> None:
    outcome, found = verify(folder)
    assert (outcome.code, found) == (0, {})
    assert "of 4 partitions" in outcome.err


@pytest.mark.parametrize(
    ("harm", "file", "severity", "reason"),
    [
        (
            lambda folder: shutil.rmtree(folder / "__consumer_offsets-1"),
            "__consumer_offsets-1",
            "damage",
            "the folder is missing",
        ),
        (
            lambda folder: shutil.rmtree(folder / f"{CONFIG_TOPIC}-0"),
            f"{CONFIG_TOPIC}-0",
            "damage",
            "the folder is missing",
        ),
        (
            lambda folder: shutil.rmtree(folder / f"{AUDIT_TOPIC}-0"),
            f"{AUDIT_TOPIC}-0",
            "warning",
            "recreates it empty",
        ),
        (
            lambda folder: flip(folder / f"{CONFIG_TOPIC}-0" / LOG, 62),
            f"{CONFIG_TOPIC}-0/{LOG}",
            "damage",
            "",
        ),
        (
            lambda folder: flip(folder / f"{AUDIT_TOPIC}-0" / LOG, 62),
            f"{AUDIT_TOPIC}-0/{LOG}",
            "damage",
            "",
        ),
        (
            lambda folder: (folder / PROPERTIES).unlink(),
            PROPERTIES,
            "damage",
            "move offsetd.properties, offsetd-journal-*",
        ),
        (flip_last_frame, "offsetd-journal-0", "warning", "the last frame"),
        (
            lambda folder: (folder / "offsetd-journal-1").unlink(),
            "offsetd-journal-1",
            "damage",
            "is missing",
        ),
    ],
)
def test_what_a_start_would_miss_is_found(
    folder: Path, harm: Callable[[Path], object], file: str, severity: str, reason: str
) -> None:
    harm(folder)
    outcome, found = verify(folder)
    assert found[file][0] == severity
    assert reason in found[file][1]
    assert outcome.code == (1 if severity == "damage" else 0)

"""`offsetd log repair`: what it shows, what it does, and whom it names."""

import json
import random
from pathlib import Path
from typing import Any

from log_commands import Outcome, offsetd_log, tree
from offsetd_clients.cli.printing.terminal import OutputFormat
from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_storage.batch.record_batch import Record, batch_header, decode_batches, encode_batch
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition

NOW_MS = SystemClock().now_ms()
OFFSETS = TopicPartition("__consumer_offsets", 0)
LOG = LogConfig(segment_bytes_max=1000, cleanup_policy=COMPACT)
CONFIG = LogStoreConfig(partitions=1, journal_file_bytes=2 << 20, log=LOG)


def opened(folder: Path) -> LogStore:
    return LogStore.open(OsFiles(), folder, CONFIG, clock=SystemClock(), random=random.Random(7))


def damaged(folder: Path) -> Path:
    """A folder with a bad batch, of which only the value is hit, and a missing last segment."""
    store = opened(folder)
    for number in range(9):
        key = OffsetKey(group=f"g{number}", topic="orders", partition=0)
        record = Record(key=encode_key(key), value=b"v" * 400, offset=0, timestamp_ms=NOW_MS)
        store.produce(OFFSETS, encode_batch([record], base_offset=0))
        store.flush()
    bases = [each.base_offset for each in store.logs[OFFSETS].segments]
    store.close()
    assert len(bases) > 3
    log = folder / OFFSETS.folder_name
    path = log / f"{bases[1]:020d}.log"
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    (log / f"{bases[-1]:020d}.log").unlink()
    return folder


def repair(folder: Path, *arguments: str) -> tuple[Outcome, list[Any]]:
    outcome = offsetd_log("repair", "--data-dir", str(folder), *arguments, output=OutputFormat.JSON)
    return outcome, json.loads(outcome.out or "[]")


def test_a_repair_shows_what_is_left_out_and_does_it(tmp_path: Path) -> None:
    folder = damaged(tmp_path / "offsets")
    store = opened(folder)
    assert "offsetd log repair" in str(store.quarantined[OFFSETS])
    store.close()
    before = tree(folder)
    outcome, shown = repair(folder)
    assert outcome.code == 0, outcome.err
    assert tree(folder) == before
    assert "nothing was changed: repeat with --execute to do it" in outcome.err
    missing, bad = shown
    assert "missing" in missing["reason"]
    assert missing["bytes"] is None
    assert bad["groups"] == ["g2"]
    assert bad["bytes"] > 400
    outcome, done = repair(folder, "--partition", "0", "--execute")
    assert outcome.code == 0, outcome.err
    assert done == shown
    assert "were kept" in outcome.err
    store = opened(folder)
    assert not store.quarantined
    assert store.logs[OFFSETS].offset_next == 9
    store.close()
    outcome, rows = repair(folder)
    assert (outcome.code, rows) == (0, [])
    assert "no partition has damage that a repair can remove" in outcome.err


def lose(folder: Path) -> None:
    """Makes a folder with two bad batches: g has lost 2, and h 5, which 6 has replaced."""
    store = opened(folder)
    for group, offset in (("g", 1), ("g", 2), ("h", 5), ("h", 6), ("i", 7)):
        value = OffsetCommitValue(offset=offset, commit_timestamp_ms=NOW_MS).encode(3)
        key = encode_key(OffsetKey(group=group, topic="orders", partition=3))
        record = Record(key=key, value=value, offset=0, timestamp_ms=NOW_MS)
        store.produce(OFFSETS, encode_batch([record], base_offset=0))
        store.flush()
    store.close()
    path = folder / OFFSETS.folder_name / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    starts = [0]
    for _ in range(3):
        starts.append(starts[-1] + batch_header(bytes(content), starts[-1]).size_bytes)
    for start in starts[1:3]:
        content[start + 17] ^= 1  # A bit of the checksum: the record can be read.
    path.write_bytes(content)


def test_each_loss_is_shown_with_what_applies_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    lose(folder)
    opened(folder).close()
    outcome, shown = repair(folder, "--by-group")
    assert outcome.code == 0, outcome.err
    assert shown == [
        {
            "group": "g",
            "topic": "orders",
            "partition": 3,
            "lost_offset": 2,
            "offset_after": 1,
            "certain": False,
            "log_partition": 0,
        }
    ]
    assert "1 groups lose records" in outcome.err
    _, by_file = repair(folder)
    assert [row["groups"] for row in by_file] == [["g", "h"]]


def test_a_record_whose_key_is_damaged_is_told_as_what_any_group_may_have_lost(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "offsets"
    store = opened(folder)
    keys = [
        encode_key(OffsetKey(group="billing", topic="orders", partition=partition))
        for partition in (0, 2, 0)
    ]
    for key in keys:
        value = OffsetCommitValue(offset=5, commit_timestamp_ms=NOW_MS).encode(3)
        record = Record(key=key, value=value, offset=0, timestamp_ms=NOW_MS)
        store.produce(OFFSETS, encode_batch([record], base_offset=0))
        store.flush()
    store.close()
    path = folder / OFFSETS.folder_name / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    start = batch_header(bytes(content), 0).size_bytes
    # Within the key: no length of it changes, and no name of it can be read.
    place = content.index(keys[1], start)
    content[place : place + 2] = b"\xff\xff"
    path.write_bytes(content)
    opened(folder).close()
    outcome, rows = repair(folder, "--by-group")
    assert (outcome.code, rows) == (0, []), outcome.err
    size = batch_header(bytes(content), start).size_bytes
    assert "any group of this log partition may have lost records" in outcome.err
    assert f"{size} bytes at {start} fail their checksum" in outcome.err


def test_a_repair_is_in_the_audit_log(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    lose(folder)
    opened(folder).close()
    outcome, _ = repair(folder, "--execute")
    assert outcome.code == 0, outcome.err
    store = opened(folder)
    (event,) = (
        AuditEvent.decode(record.value or b"", time_ms=record.timestamp_ms)
        for batch in decode_batches(store.log(AUDIT_PARTITION).read(0, bytes_max=1 << 20))
        for record in batch.records
    )
    store.close()
    assert (event.method, event.topic) == ("RepairPartition", "__consumer_offsets")
    assert event.what["partition"] == 0
    assert event.what["groups"] == ["g"]
    assert event.what["bytes_left_out"] > 0


def test_what_a_repair_is_not_for_is_refused_with_nothing_changed(tmp_path: Path) -> None:
    folder = damaged(tmp_path / "offsets")
    outcome, _ = repair(folder, "--dry-run", "--execute")
    assert outcome.code == 2
    outcome, _ = repair(folder, "--partition", "7", "--execute")
    assert outcome.code == 1
    assert "has nothing of __consumer_offsets-7" in outcome.err
    for name in ("offsetd.properties", "offsetd-journal-0", "offsetd-journal-1"):
        (folder / name).unlink()
    before = tree(folder)
    outcome, _ = repair(folder, "--execute")
    assert outcome.code == 1
    assert "not a data folder of offsetd" in outcome.err
    assert tree(folder) == before

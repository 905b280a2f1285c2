"""Folders with random damage are repaired: nothing wrong is served, nothing whole is lost, and each
loss is told.

The references do not use the repair's own reading of segments: the test knows every batch that it
wrote, and in which segment.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from chance import seed_of
from log_commands import offsetd_log
from offsetd_clients.cli.printing.terminal import OutputFormat
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = 200 if os.environ.get("OFFSETD_NIGHTLY") else 12
OFFSETS = TopicPartition("__consumer_offsets", 0)
BATCHES = 150
GROUPS = 12
CONFIG = LogStoreConfig(
    partitions=1,
    journal_file_bytes=2 << 20,
    log=LogConfig(segment_bytes_max=2000, cleanup_policy=COMPACT),
)


class Written(NamedTuple):
    """A batch, its records as (group, offset or None for a deletion), and its segment."""

    base_offset: int
    content: bytes
    commits: list[tuple[str, int | None]]
    file: str


def opened(folder: Path) -> LogStore:
    return LogStore.open(OsFiles(), folder, CONFIG, clock=SystemClock(), random=random.Random(7))


def write(folder: Path, chance: random.Random) -> list[Written]:
    """Commits and deletions of some groups, in batches of one to five records."""
    store, now_ms = opened(folder), SystemClock().now_ms()
    log = store.log(OFFSETS)
    commits: list[tuple[int, bytes, list[tuple[str, int | None]]]] = []
    for number in range(BATCHES):
        made: list[tuple[str, int | None]] = [
            (f"g{chance.randrange(GROUPS)}", None if chance.random() < 0.1 else number * 10 + place)
            for place in range(chance.randint(1, 5))
        ]
        records = [
            Record(
                key=encode_key(OffsetKey(group=group, topic="orders", partition=0)),
                value=None
                if offset is None
                else OffsetCommitValue(offset=offset, commit_timestamp_ms=now_ms).encode(3),
                offset=log.offset_next + place,
                timestamp_ms=now_ms,
            )
            for place, (group, offset) in enumerate(made)
        ]
        batch = encode_batch(records, base_offset=log.offset_next, leader_epoch=log.leader_epoch)
        commits.append((log.offset_next, batch, made))
        store.append(OFFSETS, batch, last_offset=records[-1].offset, max_timestamp_ms=now_ms)
        store.flush()
    store.close()
    files = {
        path.name: path.read_bytes()
        for path in sorted((folder / OFFSETS.folder_name).glob("*.log"))
    }
    assert len(files) > 3
    written = []
    for base_offset, batch, made in commits:
        ((name, position),) = (
            (name, content.index(batch[:12]))  # Its offset and length: the log sets the epoch.
            for name, content in files.items()
            if batch[:12] in content
        )
        content = files[name][position : position + len(batch)]
        assert content[16:] == batch[16:]
        written.append(Written(base_offset, content, made, name))
    return written


def damage(folder: Path, chance: random.Random) -> None:
    """One to four damages of the partition's segments, of all kinds."""
    paths = sorted((folder / OFFSETS.folder_name).glob("*.log"))
    for _ in range(chance.randint(1, 4)):
        path = chance.choice(paths)
        if not path.exists() or not path.stat().st_size:
            continue
        content = bytearray(path.read_bytes())
        at = chance.randrange(len(content))
        end = min(len(content), at + chance.choice((1, 8, 64, 500)))
        match chance.randrange(7):
            case 0 | 1:
                content[at] ^= 1 << chance.randrange(8)
            case 2:
                content[at:end] = bytes(end - at)
            case 3:
                content[at:end] = chance.randbytes(end - at)
            case 4:
                del content[at:]
            case 5:
                del content[at:end]
            case 6:
                path.unlink()
                continue
        path.write_bytes(content)


def intact(folder: Path, written: list[Written]) -> list[Written]:
    """The batches whose bytes are still in their segment, one behind the other.

    If a removed byte leaves two batches that share one, the second one counts as damaged.
    """
    paths = (folder / OFFSETS.folder_name).glob("*.log")
    contents = {path.name: path.read_bytes() for path in paths}
    ends: dict[str, int] = {}
    found = []
    for each in written:
        position = contents.get(each.file, b"").find(each.content, ends.get(each.file, 0))
        if position >= 0:
            ends[each.file] = position + len(each.content)
            found.append(each)
    return found


def served(folder: Path) -> tuple[set[int], dict[str, int | None]]:
    """The base offsets of the batches of the log, and the newest commit of each group."""
    store = opened(folder)
    assert not store.quarantined
    bases = set[int]()
    newest: dict[str, int | None] = {}
    chunks = store.log(OFFSETS).read_chunks(1 << 20, offset=0)
    content = b"".join(buffer[:end].tobytes() for buffer, end in chunks)
    for batch in decode_batches(content):
        bases.add(batch.base_offset)
        for record in batch.records:
            key, value = decode_key(record.key or b""), record.value
            assert isinstance(key, OffsetKey)
            newest[key.group] = None if value is None else OffsetCommitValue.decode(value).offset
    store.close()
    return bases, newest


def repair(folder: Path, *arguments: str) -> tuple[list[Any], str]:
    outcome = offsetd_log(
        "repair", "--data-dir", str(folder), "--by-group", *arguments, output=OutputFormat.JSON
    )
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out or "[]"), outcome.err


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Written]]:
    folder = tmp_path_factory.mktemp("whole") / "offsets"
    return folder, write(folder, random.Random(seed_of("whole")))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(FOLDERS))
def test_a_repair_serves_what_is_whole_and_tells_what_is_lost(
    whole: tuple[Path, list[Written]], tmp_path: Path, number: int
) -> None:
    folder, written = tmp_path / "offsets", whole[1]
    shutil.copytree(whole[0], folder)
    damage(folder, random.Random(seed_of("damage", number)))
    kept = intact(folder, written)
    told, notes = repair(folder)
    assert repair(folder, "--execute")[0] == told
    bases, newest = served(folder)
    assert {each.base_offset for each in kept} <= bases, "every batch that verifies is served"
    assert bases <= {each.base_offset for each in written}
    for group, offset in newest.items():
        assert (group, offset) in {commit for each in written for commit in each.commits}
    expected = {group: offset for each in kept for group, offset in each.commits}
    assert newest == expected, "never a wrong value"
    final = {group: offset for each in written for group, offset in each.commits}
    lost = {group for group, offset in final.items() if newest.get(group) != offset}
    named = {row["group"] for row in told}
    may_have_lost = "in what cannot be trusted" in notes
    assert lost <= named or may_have_lost, (lost, told, notes)
    for row in told:
        if row["certain"] and row["group"] in final:
            assert row["offset_after"] == newest.get(row["group"])

"""Logs of `__consumer_offsets` made at random: of all that brokers and servers write, and of what
nobody should."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from offsetd_storage.offsets_topic.schemas.keys import (
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    encode_key,
)
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.timestamp_type import TimestampType

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

GROUPS = ("g", "billing", "größe 🚀", "a" * 300)
TOPICS = ("orders", "t")
START_MS = 1_700_000_000_000
_MARKER_KEYS = {"aborted": struct.pack(">hh", 0, 0), "committed": struct.pack(">hh", 0, 1)}
_MARKER_VALUE = struct.pack(">hi", 0, 0)


def random_log(chance: Random, *, batches: int, cleaned: bool = True) -> list[bytes]:
    """Batches one behind the other; with gaps as compaction leaves them, if they are cleaned."""
    offset = chance.choice((0, 0, 1_000_000))
    found = []
    for number in range(batches):
        offset += chance.choice((0, 0, 0, 7)) if cleaned else 0
        batch, count = _batch(chance, offset, START_MS + 1000 * number, cleaned=cleaned)
        found.append(batch)
        offset += count
    return found


def write_log(folder: Path, batches: list[bytes], *, partition: int = 0, segments: int = 2) -> None:
    """As a broker's folder with one log, divided into segments."""
    log = folder / f"__consumer_offsets-{partition}"
    log.mkdir(parents=True)
    size = -(-len(batches) // segments)
    for first in range(0, len(batches), size):
        base_offset = int.from_bytes(batches[first][:8], "big")
        content = b"".join(batches[first : first + size])
        (log / f"{base_offset:020d}.log").write_bytes(content)


def marker_batch(end: str, offset: int, *, producer_id: int, now_ms: int = START_MS) -> bytes:
    """The end of a producer's transaction: `committed` or `aborted`."""
    key = _MARKER_KEYS[end]
    return encode_batch(
        [Record(key=key, value=_MARKER_VALUE, offset=offset, timestamp_ms=now_ms)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
    )


def offset_batch(group: str, offset: int, *, producer_id: int = -1) -> bytes:
    """One committed offset; with a producer, as a part of its transaction."""
    record = Record(
        key=encode_key(OffsetKey(group=group, topic="orders", partition=0)),
        value=OffsetCommitValue(offset=offset, commit_timestamp_ms=START_MS).encode(version=3),
        offset=offset,
        timestamp_ms=START_MS,
    )
    return encode_batch(
        [record],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=1 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def _batch(chance: Random, offset: int, now_ms: int, *, cleaned: bool) -> tuple[bytes, int]:
    producer = chance.choice((-1, -1, -1, 7, 8))
    is_transactional = producer >= 0 and chance.random() < 0.8
    if is_transactional and chance.random() < 0.3:
        end = chance.choice(list(_MARKER_KEYS))
        return marker_batch(end, offset, producer_id=producer, now_ms=now_ms), 1
    count = chance.choice((1, 1, 2, 5, 40))
    places = [offset + each for each in range(count) if not cleaned or chance.random() < 0.9]
    records = [
        Record(
            key=_key(chance),
            value=b"",
            offset=place,
            timestamp_ms=now_ms + chance.randrange(-5, 5),
            headers=chance.choice(((), (), (("request-id", b"x" * 16),))),
        )
        for place in places
    ]
    records = [_with_value(chance, record) for record in records]
    return encode_batch(
        records,
        base_offset=offset,
        last_offset=offset + count - 1,
        compression=chance.choice((*[Compression.NONE] * 6, *Compression)),
        timestamp_type=chance.choice((*[TimestampType.CREATE_TIME] * 4, *TimestampType)),
        delete_horizon_ms=chance.choice((None, None, None, now_ms)),
        producer_id=producer,
        producer_epoch=3 if producer >= 0 else -1,
        base_sequence=chance.choice((-1, 0, 2_147_483_647)),
        is_transactional=is_transactional,
    ), count


def _key(chance: Random) -> bytes | None:
    group, topic = chance.choice(GROUPS), chance.choice(TOPICS)
    partition = chance.randrange(3)
    usual = encode_key(OffsetKey(group=group, topic=topic, partition=partition))
    rare = (
        encode_key(OffsetKey(group=group, topic=topic, partition=partition, version=0)),
        usual + b"more",
        encode_key(GroupKey(group=group)),
        encode_key(GroupSettingsKey(group=group)),
        usual[:-1],
        usual.replace(b"t", b"\xff"),
        struct.pack(">h", 99) + b"unknown",
        # What follows the type is that of an offset, and it is not one.
        struct.pack(">h", 2) + struct.pack(">h", 6) + bytes(6),
        b"\0",
        None,
    )
    return usual if chance.random() < 0.7 else chance.choice(rare)


def _with_value(chance: Random, record: Record) -> Record:
    value: bytes | None
    number = int.from_bytes((record.key or b"")[:2], "big")
    if chance.random() < 0.15:
        value = None
    elif chance.random() < 0.05:
        value = chance.randbytes(chance.randrange(12))
    elif number == 2:
        value = _group(chance)
    elif number == 20_292:
        value = GroupSettings(retention_ms=chance.choice((None, 5))).encode()
    else:
        value = _offset(chance, record.timestamp_ms)
    return Record(
        key=record.key,
        value=value,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        headers=record.headers,
    )


def _offset(chance: Random, now_ms: int) -> bytes:
    version = chance.choice((1, 3, 4))
    return OffsetCommitValue(
        offset=chance.randrange(1 << 40),
        leader_epoch=chance.choice((-1, 5)) if version >= 3 else -1,
        metadata=chance.choice(("", "host-7\0", "ß" * chance.randrange(200))),
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=chance.choice((-1, now_ms + 9)) if version != 3 else -1,
    ).encode(version)


def _group(chance: Random) -> bytes:
    members = tuple(
        GroupMember(
            member_id=f"m{each}",
            client_id="c",
            client_host="/h",
            session_timeout_ms=1,
            subscription=b"",
            assignment=b"",
        )
        for each in range(chance.randrange(3))
    )
    return GroupMetadataValue(
        protocol_type=chance.choice(("", "connect")),
        generation=chance.randrange(9),
        protocol="range",
        leader="m0",
        current_state_timestamp_ms=START_MS,
        members=members,
    ).encode()

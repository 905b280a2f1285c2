"""What a repair loses: the records in the bytes that it leaves out, and what counts after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import attrs
from offsetd_storage.batch.record_batch import batch_header, computed_crc, decode_batch
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.offsets_topic.schemas.keys import (
    ConsumerGroupKey,
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    UnknownKey,
    decode_key,
)
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.recovery.repair_plan import split_batches

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from offsetd_storage.batch.record_batch import Record
    from offsetd_storage.disk.files import Files
    from offsetd_storage.recovery.repair_plan import BadBytes, Repair


_GroupsKey: TypeAlias = OffsetKey | GroupKey | ConsumerGroupKey | GroupSettingsKey


class _Lost(NamedTuple):
    """The newest lost record of a key."""

    log_offset: int
    """Kept records from here on are newer."""
    value: bytes | None
    is_certain: bool


@attrs.frozen(kw_only=True)
class Loss:
    """A record that is lost, and that no later record replaces.

    `topic` and `partition` are None for a record about the group itself. The offsets are None for a
    deletion, or if there is none, or if the value cannot be read. Unless `is_certain`, damage may
    have changed every field.
    """

    group: str
    is_certain: bool
    topic: str | None = None
    partition: int | None = None
    lost_offset: int | None = None
    offset_after: int | None = None


@attrs.frozen(kw_only=True)
class Losses:
    """All that a repair loses.

    In the unreadable parts there may be commits of any group: they cannot be read, or they fail
    their checksum, so that their keys may be damaged. `unreadable_bytes` are those of the first.
    """

    known: tuple[Loss, ...]
    groups_in: Mapping[BadBytes, tuple[str, ...]]
    """The groups whose records can be read in some bytes, also if later records replace them."""
    unreadable_bytes: int
    unreadable_parts: tuple[str, ...]

    @property
    def group_ids(self) -> tuple[str, ...]:
        """The groups of the known losses, sorted."""
        return tuple(sorted({each.group for each in self.known}))


def losses_of(files: Files, log_folder: Path, repair: Repair) -> Losses:
    """The losses of a repair of a partition of `__consumer_offsets`.

    It reads the whole log. Raises OSError.
    """
    lost: dict[bytes, _Lost] = {}
    unreadable_bytes, unreadable_parts = 0, []
    groups_in: dict[BadBytes, tuple[str, ...]] = {}
    for bad in repair.bad:
        unreadable, doubtful, keys = len(bad.content), 0, set[bytes]()
        for batch in split_batches(bad.content):
            records = _records(batch, check_crc=False)
            is_certain = computed_crc(batch) == batch_header(batch).crc
            if records:
                unreadable -= len(batch)
                doubtful += 0 if is_certain else len(batch)
            for record in records:
                keys.add(record.key or b"")
                lost[record.key or b""] = _Lost(bad.log_offset, record.value, is_certain)
        groups_in[bad] = tuple(sorted({each.group for each in map(_key_of, keys) if each}))
        if unreadable:
            unreadable_bytes += unreadable
            unreadable_parts.append(
                f"{bad.base_offset:020d}.log: {unreadable} bytes at {bad.position} cannot be read"
            )
        if doubtful:
            unreadable_parts.append(
                f"{bad.base_offset:020d}.log: {doubtful} bytes at {bad.position} fail their"
                " checksum, so names in them may be wrong"
            )
    kept: dict[bytes, Record] = {}
    for batch in repair.kept_batches(files, log_folder):
        kept.update(
            (key, record)
            for record in _records(batch, check_crc=True)
            if (key := record.key or b"") in lost
        )
    known = [_loss(key, each, kept.get(key)) for key, each in lost.items()]
    return Losses(
        known=tuple(sorted(filter(None, known), key=_order)),
        groups_in=groups_in,
        unreadable_bytes=unreadable_bytes,
        unreadable_parts=(*unreadable_parts, *repair.missing),
    )


def _records(batch: bytes, *, check_crc: bool) -> tuple[Record, ...]:
    try:
        decoded = decode_batch(batch, check_crc=check_crc)
    except CorruptBatch:
        return ()
    return () if decoded.is_control else decoded.records


def _loss(key: bytes, lost: _Lost, kept: Record | None) -> Loss | None:
    if kept is not None and kept.offset >= lost.log_offset:
        return None
    decoded = _key_of(key)
    if decoded is None:
        return None
    if not isinstance(decoded, OffsetKey):
        return Loss(group=decoded.group, is_certain=lost.is_certain)
    return Loss(
        group=decoded.group,
        topic=decoded.topic,
        partition=decoded.partition,
        lost_offset=_offset(lost.value),
        offset_after=None if kept is None else _offset(kept.value),
        is_certain=lost.is_certain,
    )


def _key_of(key: bytes) -> _GroupsKey | None:
    try:
        decoded = decode_key(key)
    except UndecodableRecord:
        return None
    return None if isinstance(decoded, UnknownKey) else decoded


def _offset(value: bytes | None) -> int | None:
    try:
        return None if value is None else OffsetCommitValue.decode(value).offset
    except UndecodableRecord:
        return None


def _order(loss: Loss) -> tuple[str, str, int]:
    return loss.group, loss.topic or "", -1 if loss.partition is None else loss.partition

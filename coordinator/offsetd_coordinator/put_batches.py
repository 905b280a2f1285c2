"""Batches of offsets that an administrator writes: one where they fit, else as many as it takes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from offsetd_storage.record_batch import Record, encode_batch

from offsetd_coordinator.commit_rules import as_arguments
from offsetd_coordinator.errors import InvalidCommitSize, InvalidRetention
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.commit import decide_commit
from offsetd_coordinator.kernels.request_ids import HEADER_NAME
from offsetd_coordinator.requests import CommitOffsets, OffsetEntry
from offsetd_coordinator.schemas.keys import OffsetKey, encode_key
from offsetd_coordinator.schemas.offset_commit import OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsetd_coordinator.kernels.columns import Bytes, Int64s, TableArrays
    from offsetd_coordinator.offset_changes import PutOffset

_REQUEST_ID_BYTES: Final = 16
# Of a record beside its names and its metadata, at most; and of a batch with a request's id.
_RECORD_BYTES_MAX: Final = 112
_BATCH_BYTES_MAX: Final = 128
_VERSION_WITHOUT_EXPIRY: Final = 3


class Encoder(NamedTuple):
    """What batches are written with: the table's arrays tell which requests were answered."""

    arrays: TableArrays
    now_ms: int
    base_offset: int
    leader_epoch: int
    value_version: int
    bytes_max: int
    out: Bytes  # Padded.


def known_id(call: str, request_id: bytes) -> bytes:
    """What a batch carries for a request: ids of different calls must not meet, nor commits'."""
    if not request_id:
        return b""
    named = call.encode() + b"\0" + request_id
    return hashlib.blake2b(named, digest_size=_REQUEST_ID_BYTES).digest()


def answered_before(encoder: Encoder, group_id: bytes, request_id: bytes) -> int | None:
    """The last log offset that a request with this id wrote, within the window."""
    if not request_id:
        return None
    verdict = np.zeros(columns.VERDICT_COLUMNS, np.int64)
    nothing = CommitOffsets.of(group_id, (), request_id)
    if _decide(encoder._replace(bytes_max=0), nothing, -1, verdict) != columns.DUPLICATE:
        return None
    return int(verdict[columns.VERDICT_LAST_OFFSET])


def encode_offsets(
    encoder: Encoder,
    group_id: bytes,
    offsets: Sequence[PutOffset],
    request_id: bytes,
    *,
    is_splittable: bool,
) -> tuple[tuple[bytes, int], ...]:
    """The batches that write these offsets, in their order, and the last log offset of each.

    The last of several batches carries the request's id: what a crash cut off is not answered, but
    written again. Raises InvalidCommitSize, InvalidRetention.
    """
    if encoder.value_version == _VERSION_WITHOUT_EXPIRY:
        _refuse_expiring(offsets)
    whole = _encode(encoder, group_id, offsets, request_id)
    if whole is not None:
        return ((whole, encoder.base_offset + len(offsets) - 1),)
    if not is_splittable:
        raise InvalidCommitSize(
            "partitions",
            "the record batch of {offset_count} offsets exceeds {bytes_max} bytes",
            offset_count=len(offsets),
            bytes_max=encoder.bytes_max,
        )
    batches = []
    written = 0
    for part in _parts(group_id, offsets, encoder.bytes_max):
        is_last = written + len(part) == len(offsets)
        base_offset = encoder.base_offset + written
        batch = _encode(
            encoder._replace(base_offset=base_offset),
            group_id,
            part,
            request_id if is_last else b"",
        )
        if batch is None:
            raise InvalidCommitSize(
                "offsets", "a record exceeds {bytes_max} bytes", bytes_max=encoder.bytes_max
            )
        written += len(part)
        batches.append((batch, base_offset + len(part) - 1))
    return tuple(batches)


def _encode(
    encoder: Encoder, group_id: bytes, offsets: Sequence[PutOffset], request_id: bytes
) -> bytes | None:
    """One batch of a request that was not answered before; None if it is too large."""
    expire_times = {each.expire_timestamp_ms for each in offsets}
    expires_ms = expire_times.pop() if len(expire_times) == 1 else -1
    commit = CommitOffsets.of(
        group_id,
        (
            OffsetEntry(
                topic=each.topic,
                partition=each.partition,
                offset=each.offset,
                leader_epoch=each.leader_epoch,
                metadata=each.metadata,
            )
            for each in offsets
        ),
        request_id,
    )
    size = _decide(encoder, commit, expires_ms, np.zeros(columns.VERDICT_COLUMNS, np.int64))
    if size < 0:
        return None
    if not expire_times:
        return encoder.out[:size].tobytes()
    batch = _with_own_times(encoder, group_id, offsets, request_id)
    return batch if len(batch) <= encoder.bytes_max else None


def _decide(encoder: Encoder, commit: CommitOffsets, expires_ms: int, verdict: Int64s) -> int:
    """What the kernel of commits makes of it: the batch's size in `out`, or why there is none."""
    return decide_commit(
        encoder.arrays,
        *as_arguments(commit),
        encoder.now_ms,
        expires_ms,
        0,
        encoder.base_offset,
        encoder.leader_epoch,
        encoder.value_version,
        encoder.bytes_max,
        encoder.out,
        verdict,
        np.zeros((1, columns.CONFLICT_COLUMNS), np.int64),
    )


def _with_own_times(
    encoder: Encoder, group_id: bytes, offsets: Sequence[PutOffset], request_id: bytes
) -> bytes:
    """The kernel writes one time of expiry for all; few groups need more, and take longer."""
    group = group_id.decode()
    headers = ((HEADER_NAME.decode(), request_id),) if request_id else ()
    records = [
        Record(
            key=encode_key(
                OffsetKey(group=group, topic=each.topic.decode(), partition=each.partition)
            ),
            value=OffsetCommitValue(
                offset=each.offset,
                leader_epoch=each.leader_epoch,
                metadata=each.metadata.decode(),
                commit_timestamp_ms=encoder.now_ms,
                expire_timestamp_ms=each.expire_timestamp_ms,
            ).encode(encoder.value_version),
            offset=encoder.base_offset + place,
            timestamp_ms=encoder.now_ms,
            headers=() if place else headers,
        )
        for place, each in enumerate(offsets)
    ]
    return encode_batch(records, base_offset=encoder.base_offset, leader_epoch=encoder.leader_epoch)


def _parts(
    group_id: bytes, offsets: Sequence[PutOffset], bytes_max: int
) -> Iterator[Sequence[PutOffset]]:
    """As many as surely fit one batch, each time."""
    start, size = 0, _BATCH_BYTES_MAX
    for place, each in enumerate(offsets):
        more = _RECORD_BYTES_MAX + len(group_id) + len(each.topic) + len(each.metadata)
        if size + more > bytes_max and place > start:
            yield offsets[start:place]
            start, size = place, _BATCH_BYTES_MAX
        size += more
    yield offsets[start:]


def _refuse_expiring(offsets: Sequence[PutOffset]) -> None:
    for place, each in enumerate(offsets):
        if each.expire_timestamp_ms >= 0:
            raise InvalidRetention(
                f"offsets[{place}].expire_time",
                "offset.commit.value.version {version} has no place for it",
                version="3",
            )

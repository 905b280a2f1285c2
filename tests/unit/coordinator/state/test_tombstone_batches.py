"""Batches of tombstones against those that the plain encoder makes."""

from __future__ import annotations

import numpy as np
import pytest
from offsetd_coordinator.errors import InvalidCommitSize
from offsetd_coordinator.state.tombstone_batches import encode_tombstones
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch
from offsetd_storage.kernels import padded_buffer, padded_copy
from shards import NOW_MS, group_key, offset_key

pytestmark = pytest.mark.kernel

KEYS = [
    *(offset_key("g", "t" * size, size) for size in range(200)),
    group_key("g"),
]
BASE_OFFSET = 77


def batches_of(
    keys: list[bytes], bytes_max: int, request_id: bytes = b""
) -> tuple[tuple[bytes, int], ...]:
    return encode_tombstones(
        padded_copy(b"".join(keys)),
        np.cumsum([len(key) for key in keys], dtype=np.int64),
        request_id=request_id,
        now_ms=NOW_MS,
        base_offset=BASE_OFFSET,
        leader_epoch=3,
        out=padded_buffer(bytes_max),
    )


def plain_batch(
    keys: list[bytes], base_offset: int, headers: tuple[tuple[str, bytes], ...] = ()
) -> bytes:
    records = [
        Record(
            key=key,
            value=None,
            offset=base_offset + index,
            timestamp_ms=NOW_MS,
            headers=headers if index == 0 else (),
        )
        for index, key in enumerate(keys)
    ]
    return encode_batch(records, base_offset=base_offset, leader_epoch=3)


@pytest.mark.parametrize("request_id", [b"", b"one", b"x" * 63, b"x" * 64])
@pytest.mark.parametrize("count", [1, 2, 64, 65, 201])
def test_what_fits_one_batch_is_that_batch(count: int, request_id: bytes) -> None:
    headers = (("offsetd-request-id", request_id),) if request_id else ()
    expected = plain_batch(KEYS[:count], BASE_OFFSET, headers)
    [(batch, last_offset)] = batches_of(KEYS[:count], len(expected), request_id)
    assert batch == expected
    assert last_offset == BASE_OFFSET + count - 1


@pytest.mark.parametrize("request_id", [b"", b"one"])
@pytest.mark.parametrize("bytes_max", [400, 1000, 5000])
def test_what_does_not_is_split_and_only_the_last_batch_has_the_request_id(
    bytes_max: int, request_id: bytes
) -> None:
    batches = batches_of(KEYS, bytes_max, request_id)
    start = ("offsetd-deletion", BASE_OFFSET.to_bytes(8))
    assert len(batches) > 1
    first = 0
    for number, (batch, last_offset) in enumerate(batches):
        headers: tuple[tuple[str, bytes], ...] = (start,) if request_id else ()
        if request_id and number == len(batches) - 1:
            headers = (start, ("offsetd-request-id", request_id))
        count = len(decode_batch(batch).records)
        assert batch == plain_batch(KEYS[first : first + count], BASE_OFFSET + first, headers)
        assert len(batch) <= bytes_max
        first += count
        assert last_offset == BASE_OFFSET + first - 1
    assert first == len(KEYS)


def test_one_byte_less_than_fits_makes_two_batches() -> None:
    size = len(plain_batch(KEYS, BASE_OFFSET))
    assert [len(batches_of(KEYS, bytes_max)) for bytes_max in (size, size - 1)] == [1, 2]


def test_a_key_that_does_not_fit_alone_is_refused() -> None:
    size = len(plain_batch(KEYS[199:200], BASE_OFFSET))
    assert len(batches_of(KEYS[199:200], size)) == 1
    with pytest.raises(InvalidCommitSize):
        batches_of(KEYS, size - 1)

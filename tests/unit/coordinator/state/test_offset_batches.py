"""Batches of offsets that an administrator writes, read back by the schemas."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.errors import InvalidCommitSize, InvalidRetention
from offsetd_coordinator.kernels.table.request_ids import HEADER_NAME
from offsetd_coordinator.offset_changes import PutColumns, PutOffset
from offsetd_coordinator.state.offset_batches import (
    Encoder,
    PutRows,
    check_expiry,
    encode_offsets,
    fits_one_batch,
)
from offsetd_coordinator.state.offset_table import OffsetTable
from offsetd_storage.batch.record_batch import RecordBatch, decode_batch
from offsetd_storage.kernels import padded_buffer, padded_copy
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from shards import COLLIDING_SEEDS, NOW_MS, offset_key

pytestmark = pytest.mark.kernel

GROUP = "группа"
BYTES_MAX = 1 << 16

names = st.text(max_size=40)
offsets = st.builds(
    PutOffset,
    names.map(str.encode),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.text(max_size=300).map(str.encode),
    st.sampled_from([-1, 0, NOW_MS]),
    st.sampled_from([-1, 0, NOW_MS - 1]),
)
puts = st.lists(offsets, max_size=30).map(sorted)


def encoder(**more: Any) -> Encoder:
    table = OffsetTable(request_window_ms=1, request_ids_max=1, hash_seeds=COLLIDING_SEEDS)
    fields: dict[str, Any] = {
        "arrays": table.arrays,
        "now_ms": NOW_MS,
        "base_offset": 100,
        "leader_epoch": 7,
        "value_version": 4,
        "bytes_max": BYTES_MAX,
        "out": padded_buffer(BYTES_MAX),
    }
    return Encoder(**fields | more)


def rows_of(
    put: list[PutOffset], request_id: bytes = b"", deleted: tuple[bytes, ...] = ()
) -> PutRows:
    ends = np.cumsum([len(key) for key in deleted], dtype=np.int64)
    keys = padded_copy(b"".join(deleted))
    return PutRows.of(GROUP.encode(), request_id, PutColumns.of(put), (keys, ends))


def decoded(batches: tuple[tuple[bytes, int], ...]) -> list[RecordBatch]:
    found = [decode_batch(batch) for batch, _ in batches]
    assert [batch.last_offset for batch in found] == [last_offset for _, last_offset in batches]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 3, 4])
@given(put=puts)
def test_each_offset_is_written_with_its_own_times(version: int, put: list[PutOffset]) -> None:
    batches = decoded(encode_offsets(encoder(value_version=version), rows_of(put)))
    records = [record for batch in batches for record in batch.records]
    assert [record.offset for record in records] == list(range(100, 100 + len(put)))
    for each, record in zip(put, records, strict=True):
        topic = each.topic.decode()
        assert decode_key(record.key or b"") == OffsetKey(
            group=GROUP, topic=topic, partition=each.partition
        )
        value = OffsetCommitValue(
            offset=each.offset,
            leader_epoch=each.leader_epoch,
            metadata=each.metadata.decode(),
            commit_timestamp_ms=NOW_MS
            if each.commit_timestamp_ms < 0
            else each.commit_timestamp_ms,
            expire_timestamp_ms=each.expire_timestamp_ms,
        )
        assert record.value == value.encode(version)
        assert (record.timestamp_ms, record.headers) == (NOW_MS, ())
    assert {batch.partition_leader_epoch for batch in batches} <= {7}


@given(put=puts, request_id=st.sampled_from([b"", b"r" * 16]), bytes_max=st.integers(500, 3000))
def test_what_does_not_fit_is_written_in_several_batches_of_which_the_last_has_the_id(
    put: list[PutOffset], request_id: bytes, bytes_max: int
) -> None:
    small = encoder(bytes_max=bytes_max)
    deleted = tuple(offset_key(GROUP, "gone", partition) for partition in range(20))
    rows = rows_of(put, request_id, deleted)
    try:
        encoded = encode_offsets(small, rows)
    except InvalidCommitSize:
        assert max(len(each.metadata) for each in put) + 200 > bytes_max
        return
    assert fits_one_batch(small, rows) == (len(encoded) == 1)
    assert all(len(batch) <= bytes_max for batch, _ in encoded)
    batches = decoded(encoded)
    records = [record for batch in batches for record in batch.records]
    assert [record.offset for record in records] == list(range(100, 100 + len(put) + 20))
    assert [record.key for record in records[len(put) :]] == list(deleted)
    assert all((record.value is None) == (at >= len(put)) for at, record in enumerate(records))
    headed = [record.offset for record in records if record.headers]
    assert headed == ([batches[-1].base_offset] if request_id else [])
    if request_id:
        assert batches[-1].records[0].headers == ((HEADER_NAME.decode(), request_id),)
    else:
        # The next record would not have fitted.
        largest = encoder(bytes_max=len(encoded[0][0]))
        with suppress(InvalidCommitSize):  # One further on may be larger by itself.
            assert len(encode_offsets(largest, rows)[0][0]) == len(encoded[0][0])


def test_what_may_not_be_split_is_refused_and_so_is_a_record_that_fits_nowhere() -> None:
    put = [PutOffset(b"t", partition, 1, metadata=b"m" * 300) for partition in range(9)]
    with pytest.raises(InvalidCommitSize, match="offsets: 9"):
        encode_offsets(encoder(bytes_max=1000), rows_of(put), is_splittable=False)
    with pytest.raises(InvalidCommitSize, match="a record"):
        encode_offsets(encoder(bytes_max=300), rows_of(put))


def test_a_version_without_a_place_for_expiry_refuses_the_first_that_has_one() -> None:
    put = [PutOffset(b"t", 0, 1), PutOffset(b"t", 1, 1, expire_timestamp_ms=5)]
    check_expiry(encoder(), rows_of(put))
    check_expiry(encoder(value_version=3), rows_of(put[:1]))
    with pytest.raises(InvalidRetention, match=r"offsets\[1\]"):
        check_expiry(encoder(value_version=3), rows_of(put))

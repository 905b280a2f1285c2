from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import attrs
import pytest
from cleaning import (
    ABORT,
    COMMIT,
    HORIZON_MS,
    NOW_MS,
    batch,
    batches_of,
    cleaned,
    keyed,
    map_of,
    mapped,
    marker,
    no_throttle,
    rec,
    segments,
)
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, batch_header
from offsetd_storage.cleaner.cleaned_transactions import CleanedTransactions, read_producers
from offsetd_storage.cleaner.segment_filter import KeepRules, KeepStats, filter_segment
from offsetd_storage.errors import CorruptBatch, OldMessageFormat
from offsetd_storage.timestamp_type import TimestampType

if TYPE_CHECKING:
    import numpy as np

pytestmark = pytest.mark.kernel

TRANSACTIONAL = {
    "producer_id": 5,
    "producer_epoch": 0,
    "base_sequence": 7,
    "is_transactional": True,
}
IDEMPOTENT = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 7}
COMPRESSIONS = pytest.mark.parametrize("compression", Compression)
BITMAPS = pytest.mark.parametrize("bitmap_bytes_max", [1 << 20, 0], ids=["bits", "look-ups"])


def offsets(content: bytes) -> list[list[int]]:
    """Of the records of each batch."""
    return [[each.offset for each in batch.records] for batch in batches_of(content)]


def one(source, **fields):
    """What is left of the only segment, and the figures."""
    (left,), stats, _ = cleaned(source, **fields)
    return left, stats


# What stays.


@BITMAPS
@COMPRESSIONS
def test_the_last_record_of_each_key_stays(compression, bitmap_bytes_max):
    fields = {"compression": compression}
    source = segments(
        [
            keyed("a", "b", **fields),
            keyed("a", at=2, **fields),
            keyed("c", "a", "c", at=3, **fields),
            keyed("d", at=6, **fields),
        ]
    )
    left, stats = one(source, bitmap_bytes_max=bitmap_bytes_max)
    assert offsets(left) == [[1], [4, 5], [6]]
    assert (stats.messages_read, stats.messages_retained) == (7, 4)
    assert (stats.batches_dropped, stats.batches_rewritten) == (1, 2)
    assert stats.bytes_read == source[0].size_bytes
    assert stats.bytes_retained == len(left)


@COMPRESSIONS
def test_a_rewritten_batch_has_the_header_and_the_offsets_that_it_had(compression):
    before = batch(
        rec(10, "a"),
        rec(12, "b", headers=(("h", b"1"), ("", None))),
        rec(13, "a"),
        rec(17, "c", timestamp_ms=NOW_MS - 3),
        last_offset=20,
        leader_epoch=3,
        producer_id=5,
        producer_epoch=2,
        base_sequence=100,
        compression=compression,
        base=9,
    )
    left, _ = one(segments([before, keyed("c", at=30)]))
    (was,), (now, _) = batches_of(before), batches_of(left)
    assert now.records == was.records[1:3]
    assert attrs.evolve(
        now, size_bytes=was.size_bytes, crc=was.crc, records=was.records, count=4
    ) == attrs.evolve(
        was,
        base_timestamp_ms=was.records[1].timestamp_ms,
        max_timestamp_ms=was.records[2].timestamp_ms,
    )


@COMPRESSIONS
def test_rebuilding_a_batch_of_append_time_moves_its_base_to_that_time(compression):
    before = batch(
        rec(0, "a"),
        rec(1, "b"),
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp_ms=NOW_MS,
        compression=compression,
    )
    left, _ = one(segments([before, keyed("a", at=2)]))
    found = batches_of(left)[0]
    assert [each.timestamp_ms for each in found.records] == [NOW_MS]
    assert (found.base_timestamp_ms, found.max_timestamp_ms) == (NOW_MS, NOW_MS)
    assert found.timestamp_type is TimestampType.LOG_APPEND_TIME


@given(st.lists(st.integers(0, 2**41), min_size=2, max_size=6), st.booleans())
def test_the_times_of_the_records_stay_whatever_they_count_from(times, stamps):
    keys = ["gone", *map(str, range(len(times) - 1))]
    records = [
        rec(at, key, None if stamps else "v", timestamp_ms=time)
        for at, (key, time) in enumerate(zip(keys, times, strict=True))
    ]
    left, _ = one(segments([batch(*records), keyed("gone", at=50)]))
    found = batches_of(left)[0]
    assert [each.timestamp_ms for each in found.records] == times[1:]
    assert found.max_timestamp_ms == max(times[1:])
    assert found.base_timestamp_ms == (HORIZON_MS if stamps else times[1])


def test_what_nothing_changes_is_written_as_it_is():
    content = [keyed("a", "b"), keyed("c", at=2, compression=Compression.LZ4), keyed("d", at=3)]
    left, stats = one(segments(content))
    assert left == b"".join(content)
    assert not stats.is_changed


@COMPRESSIONS
def test_records_without_a_key_go_and_are_counted(compression):
    source = segments([keyed(None, "a", None, compression=compression)])
    (left,), stats, found = cleaned(source)
    assert offsets(left) == [[1]]
    assert (found.invalid_messages, stats.invalid_messages) == (2, 0)
    (left,), stats, found = cleaned(source, first_dirty=1)
    assert offsets(left) == [[1]]
    assert (found.invalid_messages, stats.invalid_messages) == (1, 1)


@BITMAPS
def test_beyond_the_end_of_the_map_everything_stays(bitmap_bytes_max):
    source = segments([keyed(*"abcdefghi", None, "a", "a", at=0)])
    left, _ = one(source, slots=10, bitmap_bytes_max=bitmap_bytes_max)
    assert offsets(left) == [list(range(12))]
    left, _ = one(source, slots=5, first_dirty=8, bitmap_bytes_max=bitmap_bytes_max)
    assert offsets(left) == [[1, 2, 3, 4, 5, 6, 7, 8, 11]]


@BITMAPS
def test_clean_records_go_where_the_dirty_range_has_their_key(bitmap_bytes_max):
    source = segments([keyed("a", "b"), keyed("c", "a", at=2)], [keyed("c", "b", at=4)])
    (first, second), _, _ = cleaned(source, first_dirty=4, bitmap_bytes_max=bitmap_bytes_max)
    assert offsets(first) == [[0], [3]]
    assert offsets(second) == [[4, 5]]


# Tombstones.


@BITMAPS
@COMPRESSIONS
def test_a_tombstone_gets_a_horizon_at_the_first_pass_and_goes_when_that_has_come(
    compression, bitmap_bytes_max
):
    before = batch(rec(0, "a"), rec(1, "b", None), compression=compression)
    source = segments([before, keyed("z", at=2)])
    fields = {"bitmap_bytes_max": bitmap_bytes_max}
    stamped, stats = one(source, **fields)
    assert stats.delete_horizon_ms == HORIZON_MS
    assert stats.batches_rewritten == 1
    was, now = batches_of(before)[0], batches_of(stamped)[0]
    assert now.delete_horizon_ms == HORIZON_MS
    assert now.records == was.records
    assert now.max_timestamp_ms == was.max_timestamp_ms
    assert now.compression is compression

    again, stats = one(segments([stamped]), now_ms=HORIZON_MS - 1, **fields)
    assert again == stamped  # Not stamped anew.
    assert (stats.is_changed, stats.delete_horizon_ms) == (False, HORIZON_MS)

    left, stats = one(segments([stamped]), now_ms=HORIZON_MS, **fields)
    assert offsets(left) == [[0], [2]]
    assert batches_of(left)[0].delete_horizon_ms == HORIZON_MS  # It stays when they are gone.
    assert stats.delete_horizon_ms is None


def test_a_tombstone_beyond_the_end_of_the_map_is_stamped_but_does_not_go():
    content = keyed(*"abcdefghi") + batch(rec(9, "z", None))
    stamped, _ = one(segments([content]), slots=10)
    assert batches_of(stamped)[1].delete_horizon_ms == HORIZON_MS
    left, _ = one(segments([stamped]), slots=10, now_ms=HORIZON_MS)
    assert left == stamped


def test_a_superseded_tombstone_goes_without_a_horizon():
    left, stats = one(segments([batch(rec(0, "a", None)), keyed("a", at=1)]))
    assert offsets(left) == [[1]]
    assert stats.delete_horizon_ms is None


# Empty batches and producers.


@COMPRESSIONS
def test_the_last_batch_of_the_round_stays_if_only_as_a_header(compression):
    last = batch(
        rec(1, None), last_offset=4, leader_epoch=2, compression=compression, producer_id=9
    )
    left, stats = one(segments([keyed("a"), last]))
    assert offsets(left) == [[0], []]
    assert len(left) == 70 + 61
    found = batches_of(left)[1]
    was = batches_of(last)[0]
    assert (found.base_offset, found.last_offset, found.producer_id) == (1, 4, 9)
    assert (found.partition_leader_epoch, found.max_timestamp_ms) == (2, was.max_timestamp_ms)
    assert (found.base_timestamp_ms, found.attributes) == (-1, 0)
    assert stats.batches_rewritten == 1

    again, stats = one(segments([left]))
    assert again == left
    assert not stats.is_changed
    left, stats = one(segments([left], end=100))
    assert offsets(left) == [[0]]
    assert stats.batches_dropped == 1


def test_the_last_batch_of_the_round_stays_also_where_its_segment_need_not_be_read():
    left, stats, _ = cleaned(segments([keyed("a")], [batch(rec(1, None))]))
    assert [offsets(each) for each in left] == [[[0]], [[]]]
    assert stats.batches_rewritten == 1


@BITMAPS
@COMPRESSIONS
def test_the_last_batch_of_an_active_producer_stays_as_a_header(compression, bitmap_bytes_max):
    source = segments(
        [
            keyed("a", at=0, compression=compression, **IDEMPOTENT),
            keyed("a", at=1, compression=compression, **IDEMPOTENT),
            keyed("a", at=2),
        ]
    )
    fields = {"bitmap_bytes_max": bitmap_bytes_max}
    left, _ = one(source, expiration_ms=10**9, **fields)
    assert offsets(left) == [[], [2]]
    found = batches_of(left)[0]
    assert (found.base_offset, found.base_sequence, found.producer_id) == (1, 7, 5)
    left, _ = one(source, expiration_ms=0, **fields)
    assert offsets(left) == [[2]]


# Transactions.


def outline(content: bytes) -> list[str]:
    names = {ABORT: "abort", COMMIT: "commit"}
    return [
        f"{each.base_offset} {names[each.records[0].key[3]] if each.records else 'empty'}"
        f"{'' if each.delete_horizon_ms is None else ' stamped'}"
        for each in batches_of(content)
        if each.is_control
    ]


@pytest.mark.parametrize(("kind", "name"), [(ABORT, "abort"), (COMMIT, "commit")])
def test_a_marker_stays_while_its_transaction_has_batches_then_until_a_horizon(kind, name):
    superseded = [keyed("a", at=0, **TRANSACTIONAL), marker(1, kind, 5), keyed("a", "z", at=2)]
    first, _ = one(segments(superseded))
    assert outline(first) == [f"1 {name}"]
    assert offsets(first)[-1] == [2, 3]
    assert len(batches_of(first)) == 2

    second, stats = one(segments([first]))
    assert outline(second) == [f"1 {name} stamped"]
    assert stats.delete_horizon_ms == HORIZON_MS
    was, now = batches_of(first)[0], batches_of(second)[0]
    assert now.records == was.records
    assert (now.producer_id, now.producer_epoch, now.is_transactional) == (5, 0, True)

    third, stats = one(segments([second]), now_ms=HORIZON_MS - 1)
    assert third == second
    assert (stats.is_changed, stats.delete_horizon_ms) == (False, HORIZON_MS)
    fourth, stats = one(segments([second]), now_ms=HORIZON_MS)
    assert outline(fourth) == []
    assert stats.batches_dropped == 1


@COMPRESSIONS
def test_the_records_of_an_aborted_transaction_go_also_where_the_map_does_not_reach(compression):
    source = segments(
        [
            keyed(*"abcdefghi"),
            keyed("y", at=9, compression=compression, **TRANSACTIONAL),
            keyed("z", at=10),
            marker(11, ABORT, 5),
            keyed("z", at=12),
        ]
    )
    left, stats = one(source, slots=10)
    assert offsets(left) == [list(range(9)), [10], [11], [12]]
    assert stats.messages_read == 12  # The aborted one is none.


def test_a_batch_that_is_passed_by_its_header_counts_for_its_transaction():
    """Also one without any record left: its marker is not even stamped."""
    source = segments(
        [keyed("a", **TRANSACTIONAL), marker(1, ABORT, 5), keyed("a", at=2), keyed("b", at=3)]
    )
    left, _ = one(source, expiration_ms=10**9)
    assert offsets(left) == [[], [1], [2], [3]]
    again, stats = one(segments([left]), expiration_ms=10**9)
    assert again == left
    assert not stats.is_changed


def test_a_producer_without_data_keeps_every_marker_of_its_epoch_as_a_header():
    stamped = marker(1, COMMIT, 5, epoch=1, delete_horizon_ms=NOW_MS)
    before = [keyed("a", **TRANSACTIONAL), stamped, keyed("a", at=2)]
    source = segments(before)
    history = read_producers(source)
    assert history.last_records[5].last_data_offset is None
    first, _ = one(source, expiration_ms=10**9)
    assert outline(first) == ["1 commit stamped"]
    second, _ = one(segments([first]), expiration_ms=10**9)
    assert outline(second) == ["1 empty"]
    third, _ = one(segments([second]), history=history, expiration_ms=10**9)
    assert third == second


def test_the_aborted_transactions_of_retained_markers_are_told():
    source = segments([keyed("a", **TRANSACTIONAL), marker(1, ABORT, 5), keyed("b", at=2)])
    offset_map = map_of()
    found = mapped(offset_map, source)
    transactions = CleanedTransactions(read_producers(source).aborted)
    rules = KeepRules(now_ms=NOW_MS, delete_retention_ms=1, first_uncleanable=3)
    filter_segment(
        source[0], offset_map, found, transactions, rules, no_write, throttle=no_throttle
    )
    assert transactions.take_retained_aborts() == list(read_producers(source).aborted)
    assert transactions.take_retained_aborts() == []


def no_write(_: np.ndarray) -> None:
    pass


# Damage.


def test_messages_of_the_old_formats_are_refused():
    (source,) = segments([keyed("a"), keyed("b", at=1)])
    offset_map = map_of()
    found = mapped(offset_map, [source])
    source.file.pwrite([b"\1"], 16)
    with pytest.raises(OldMessageFormat, match="v1 at byte 0"):
        filtered(source, offset_map, found)


def filtered(source, offset_map, found):
    written: list[bytes] = []
    rules = KeepRules(now_ms=NOW_MS, delete_retention_ms=1, first_uncleanable=100)
    filter_segment(
        source,
        offset_map,
        found,
        CleanedTransactions(),
        rules,
        lambda batches: written.append(batches.tobytes()),
        throttle=no_throttle,
    )
    return b"".join(written)


@pytest.mark.parametrize(
    "spoiled",
    [
        pytest.param(keyed("b", "a", at=0), id="to be rewritten"),
        pytest.param(keyed("a", at=0), id="to be dropped"),
        pytest.param(batch(rec(0, "c", None)), id="to be stamped"),
        pytest.param(keyed("b", "a", at=0, compression=Compression.SNAPPY), id="compressed"),
    ],
)
def test_a_clean_batch_is_checked_before_it_is_changed(spoiled):
    """Its checksum is wrong only: its records can still be read."""
    (source,) = segments([spoiled, keyed("a", at=5)])
    offset_map = map_of()
    dirty = attrs.evolve(source, start_position=len(spoiled))
    found = offset_map.build([dirty], first_dirty=5, first_uncleanable=6, throttle=no_throttle)
    assert offset_map.latest_offset(b"a") == 5
    source.file.pwrite([bytes([spoiled[17] ^ 1])], 17)
    with pytest.raises(CorruptBatch, match="bad checksum at byte 0"):
        filtered(source, offset_map, found)


def test_a_damaged_batch_that_stays_whole_is_copied_for_a_reader_to_notice():
    (source,) = segments([keyed("c"), keyed("a", at=5)])
    offset_map = map_of()
    dirty = attrs.evolve(source, start_position=70)
    found = offset_map.build([dirty], first_dirty=5, first_uncleanable=6, throttle=no_throttle)
    source.file.pwrite([b"?"], 68)
    assert filtered(source, offset_map, found)[:70] == keyed("c")[:68] + b"?\0"


def test_a_segment_that_ends_early_is_damage():
    (source,) = segments([keyed("a")])
    offset_map = map_of()
    found = mapped(offset_map, [source])
    for size, reason in ((71, "ends early at byte 70"), (69, "incomplete at byte 0")):
        with pytest.raises(CorruptBatch, match=reason):
            filtered(attrs.evolve(source, size_bytes=size), offset_map, found)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_make_it_anything_but_a_typed_error(noise, at):
    (source,) = segments(
        [keyed("a", "b"), keyed("b", at=2, compression=Compression.GZIP), marker(3, COMMIT, 1)]
    )
    offset_map = map_of()
    found = mapped(offset_map, [source])
    source.file.pwrite([noise], at)
    for first_dirty in (0, 4):  # By bits, and by looking up.
        with contextlib.suppress(CorruptBatch, OldMessageFormat):
            filtered(source, offset_map, attrs.evolve(found, first_dirty=first_dirty))


# Size.


@pytest.mark.parametrize("chunk_bytes", [61, 100, 1000, 10_000])
def test_batches_larger_than_a_chunk_are_taken_whole(chunk_bytes):
    value = "v" * 3000
    content = [batch(*(rec(at + n, f"{n % 7}", value) for n in range(3))) for at in range(0, 30, 3)]
    source = segments([*content, keyed("x", at=30)])
    whole, _ = one(source)
    offset_map = map_of()
    found = mapped(offset_map, source)
    written: list[bytes] = []
    rules = KeepRules(now_ms=NOW_MS, delete_retention_ms=1000, first_uncleanable=31)
    stats = filter_segment(
        source[0],
        offset_map,
        found,
        CleanedTransactions(),
        rules,
        lambda batches: written.append(batches.tobytes()),
        throttle=no_throttle,
        chunk_bytes=chunk_bytes,
    )
    assert b"".join(written) == whole
    assert all(batch_header(each).size_bytes <= len(each) for each in written)
    assert stats.bytes_read == source[0].size_bytes


def test_stamping_may_make_a_batch_larger_than_it_was():
    records = [Record(key=b"%d" % n, value=None, offset=n, timestamp_ms=n) for n in range(1000)]
    before = batch(*records)
    left, _ = one(segments([before]), now_ms=2**50)
    assert len(left) > len(before) + 5000
    assert batches_of(left)[0].records == tuple(records)


def test_reading_and_writing_are_throttled():
    paid: list[int] = []
    source = segments([keyed("a"), keyed("a", at=1)])
    offset_map = map_of()
    found = mapped(offset_map, source)
    rules = KeepRules(now_ms=NOW_MS, delete_retention_ms=1, first_uncleanable=2)
    filter_segment(
        source[0], offset_map, found, CleanedTransactions(), rules, no_write, throttle=paid.append
    )
    assert paid == [140, 70]


def test_stats_add_up_and_the_earliest_horizon_counts():
    first = KeepStats(bytes_read=1, messages_retained=2, delete_horizon_ms=7)
    second = KeepStats(bytes_read=10, batches_dropped=1)
    assert first + second == KeepStats(
        bytes_read=11, messages_retained=2, batches_dropped=1, delete_horizon_ms=7
    )
    assert (second + first + KeepStats(delete_horizon_ms=3)).delete_horizon_ms == 3
    assert not first.is_changed
    assert (first + second).is_changed

from __future__ import annotations

import struct

import attrs
import numpy as np
import pytest
from cleaning import ABORT, COMMIT, HASH_KEY, batch, keyed, map_of, mapped, marker, rec, segments
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.batch.compression import Compression
from offsetd_storage.cleaner.offset_map import OffsetMap
from offsetd_storage.errors import CorruptBatch, OldMessageFormat

pytestmark = pytest.mark.kernel

TRANSACTIONAL = {"producer_id": 5, "producer_epoch": 0, "is_transactional": True}


def letters(count: int) -> list[str]:
    return [chr(ord("a") + n) for n in range(count)]


def offsets(offset_map: OffsetMap, keys: str) -> list[int]:
    return [offset_map.latest_offset(key.encode()) for key in keys]


def set_bits(offset_map: OffsetMap) -> list[int]:
    raw = np.frombuffer(offset_map.bits.tobytes(), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little")).tolist()


def test_the_latest_offset_of_every_key_is_mapped():
    offset_map = map_of()
    found = mapped(offset_map, segments([keyed("a", "b", "a")], [keyed("c", "b", at=3)]))
    assert offsets(offset_map, "abcd") == [2, 4, 3, -1]
    assert (found.offset_next, found.is_full, found.keys, found.messages_read) == (5, False, 3, 5)
    assert set_bits(offset_map) == [2, 3, 4]


def test_a_map_of_10_slots_takes_20_keys_in_three_rounds_as_kafkas_does():
    source = segments([keyed(*letters(20))], end=20)
    offset_map = map_of(10)
    ends = []
    first_dirty = 0
    while first_dirty < 20:
        found = mapped(offset_map, source, first_dirty=first_dirty)
        first_dirty = found.offset_next
        ends.append((first_dirty, found.is_full, found.keys))
    assert ends == [(9, True, 9), (18, True, 9), (20, False, 2)]


@pytest.mark.parametrize(
    ("behind", "offset_next", "is_full"),
    [
        pytest.param([keyed("a", at=9)], 9, True, id="a key that is mapped already"),
        pytest.param([keyed(None, None, at=9)], 11, False, id="records without a key"),
        pytest.param([keyed(None, "z", at=9)], 9, True, id="one without, then one with"),
        pytest.param(
            [keyed(None, at=9), keyed("z", at=10)], 10, True, id="in batches of their own"
        ),
        pytest.param([marker(9, COMMIT, 5)], 10, False, id="a marker"),
        pytest.param([keyed("z", at=9, compression=Compression.ZSTD)], 9, True, id="compressed"),
    ],
)
def test_a_full_map_stops_at_the_next_record_with_a_key(behind, offset_next, is_full):
    found = mapped(map_of(10), segments([keyed(*letters(9)), *behind]))
    assert (found.offset_next, found.is_full) == (offset_next, is_full)


def test_a_map_that_is_filled_whole_has_a_key_in_each_slot_and_misses_are_found_out():
    offset_map = OffsetMap(4 * 24, load_factor=1.0, hash_key=HASH_KEY, bitmap_bytes_max=64)
    source = segments([keyed(*letters(4), *["a"] * 100)])
    found = mapped(offset_map, source)
    assert (found.offset_next, found.is_full, found.keys, found.utilization) == (4, True, 4, 1.0)
    assert offsets(offset_map, "abcdz") == [0, 1, 2, 3, -1]


def test_a_range_ends_where_the_next_segment_begins_whatever_is_missing_in_between():
    source = segments([keyed("a")], [keyed("b", at=100)], end=500)
    assert mapped(map_of(), source).offset_next == 500
    assert mapped(map_of(2), source).offset_next == 100  # Room for one: the first segment is done.


def test_nothing_dirty_is_an_empty_range():
    source = segments([keyed("a")])
    assert mapped(map_of(), source, first_dirty=1).offset_next == 1


def test_records_below_the_first_dirty_offset_are_not_mapped():
    offset_map = map_of()
    found = mapped(offset_map, segments([keyed("a", "b", "c")]), first_dirty=1)
    assert offsets(offset_map, "abc") == [-1, 1, 2]
    assert set_bits(offset_map) == [0, 1]
    assert found.bits_end == 3


def test_nothing_of_an_aborted_transaction_or_of_markers_is_mapped():
    source = segments(
        [
            keyed("a", "b"),
            keyed("a", at=2, **TRANSACTIONAL),
            keyed("b", at=3, **(TRANSACTIONAL | {"producer_id": 6})),
            marker(4, ABORT, 5),
            marker(5, COMMIT, 6),
            keyed("c", at=6, **TRANSACTIONAL),
            marker(7, COMMIT, 5),
        ]
    )
    offset_map = map_of()
    found = mapped(offset_map, source)
    assert offsets(offset_map, "abc") == [0, 3, 6]
    assert (found.offset_next, found.messages_read, found.keys) == (8, 8, 3)


@pytest.mark.parametrize("compression", Compression)
def test_compressed_records_are_mapped(compression):
    offset_map = map_of()
    found = mapped(
        offset_map,
        segments([keyed("a", "b", "a", compression=compression), keyed("b", at=3)]),
    )
    assert offsets(offset_map, "ab") == [2, 3]
    assert set_bits(offset_map) == [2, 3]
    assert found.messages_read == 4


def test_records_without_a_key_and_tombstones_are_counted_up_to_the_end_of_the_range():
    source = segments([batch(rec(0, None), rec(1, "a", None), rec(2, None), rec(3, "b", None))])
    found = mapped(map_of(), source)
    assert (found.invalid_messages, found.tombstones) == (2, 2)
    found = mapped(map_of(2), source)
    assert (found.offset_next, found.invalid_messages, found.tombstones) == (2, 1, 1)


def test_the_bitmap_ends_where_its_memory_does():
    offset_map = map_of(bitmap_bytes_max=8)
    found = mapped(offset_map, segments([keyed(*["a", "b"] * 50)]))
    assert found.bits_end == 64
    assert set_bits(offset_map) == []
    assert offsets(offset_map, "ab") == [98, 99]


def test_stretches_of_which_nothing_stays_are_told_as_one_where_they_touch():
    # A chunk holds two batches, and is a stretch, but for what is of a producer.
    first = [keyed("a", at=at) for at in range(6)]
    first += [keyed("b", at=6), keyed("b", at=7, producer_id=1, producer_epoch=0)]
    first += [keyed("b", at=8), keyed("c", at=9)]
    second = [keyed("a", at=10), keyed("b", at=11), keyed("d", at=12), keyed("d", at=13)]
    source = segments(first, second, [keyed("d", at=14), keyed("a", at=15)], end=16)
    offset_map = map_of()
    size = len(first[0])
    offset_map.build(
        source, first_dirty=0, first_uncleanable=16, throttle=lambda _: None, chunk_bytes=2 * size
    )
    assert [each[1:] for each in offset_map.gone(0)] == [(0, 7 * size, 0, 6, 7, 7)]
    assert [each[1:] for each in offset_map.gone(10)] == [(2 * size, 4 * size, 12, 13, 2, 2)]
    assert offset_map.gone(14) == []


@given(st.lists(st.integers(0, 200), min_size=1, max_size=400), st.integers(2, 300))
def test_map_and_bitmap_hold_what_a_dictionary_would(keys, slots):
    source = segments([keyed(*map(str, keys[at : at + 7]), at=at) for at in range(0, len(keys), 7)])
    offset_map = map_of(slots)
    found = mapped(offset_map, source)
    expected: dict[int, int] = {}
    for offset, key in enumerate(keys):
        if len(expected) >= offset_map.keys_max:
            assert found.offset_next == offset
            assert found.is_full
            break
        expected[key] = offset
    else:
        assert found.offset_next == len(keys)
    assert {key: offset_map.latest_offset(str(key).encode()) for key in expected} == expected
    assert set_bits(offset_map) == sorted(expected.values())
    assert found.keys == len(expected)


SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 1023, 1024, 1025, 1040, 2048, 2049, 5000]


@pytest.mark.parametrize("size", SIZES)
def test_keys_that_differ_anywhere_or_in_length_only_are_told_apart(size):
    keys = [bytes(size), bytes(size + 1), bytes(size + 16)]
    for at in {0, size // 2, size - 1} if size else ():
        keys += [bytes(at) + bytes([flip]) + bytes(size - at - 1) for flip in (1, 128, 255)]
    source = segments([batch(attrs.evolve(rec(at, "x"), key=key)) for at, key in enumerate(keys)])
    offset_map = map_of()
    assert mapped(offset_map, source).keys == len(keys)
    assert [offset_map.latest_offset(key) for key in keys] == list(range(len(keys)))


def test_keys_are_placed_by_the_secret_and_anew_in_every_round():
    source = segments([keyed("a")])
    first, second = map_of(), map_of()
    other = OffsetMap(24_000, load_factor=0.9, hash_key=bytes(16), bitmap_bytes_max=64)
    places = []
    for offset_map in (first, second, other, first):
        mapped(offset_map, source)
        places.append(offset_map.table[offset_map.table != 0].tolist())
    assert places[0] == places[1]
    assert len({tuple(place) for place in places}) == 3


@pytest.mark.parametrize(
    "key_of",
    [
        pytest.param(lambda n: struct.pack(">Q", n), id="short"),
        pytest.param(lambda n: struct.pack(">QQ", n, 0), id="first word"),
        pytest.param(lambda n: struct.pack(">QQ", 0, n), id="second word"),
        pytest.param(lambda n: struct.pack(">QQ", n, n), id="the same word twice"),
        pytest.param(lambda n: struct.pack(">QQ", n, 2**64 - 1 - n), id="and its complement"),
        pytest.param(lambda n: struct.pack(">QQ", n << 48, n << 48), id="high bits"),
        pytest.param(bytes, id="length"),
        pytest.param(lambda n: struct.pack(">64xQ48xQ", n, n), id="far apart"),
    ],
)
def test_keys_that_are_alike_spread_over_the_table(key_of):
    """No eighth of the table gets more than its share, by far; so no search is long."""
    count = 2000
    # Offsets far apart, so that all slots are used.
    batches = [batch(attrs.evolve(rec(9 * n, "x"), key=key_of(n))) for n in range(count)]
    offset_map = map_of(10_000)
    assert mapped(offset_map, segments(batches)).keys == count
    used = offset_map.table.reshape(-1, 3)[:, 2] != 0
    assert max(each.sum() for each in np.array_split(used, 8)) < count / 8 + 100
    full = np.flatnonzero(~used)
    assert np.diff(full).max() < 50  # The longest row of entries.


def test_a_short_dirty_range_touches_a_small_part_of_the_table_and_is_forgotten():
    offset_map = map_of(100_000)
    for keys in (["a", "b", "c"], [f"k{n}" for n in range(3000)], ["d", "a"], ["e"]):
        source = segments([keyed(*keys, "last", at=0)])
        assert mapped(offset_map, source).keys == len(keys) + 1
        assert not offset_map.table[offset_map.slots_used * 3 :].any()
        assert offset_map.slots_used < 4 * len(keys) + 100
        known = [
            key
            for key in ("a", "d", "e", "k7", "last")
            if offset_map.latest_offset(key.encode()) >= 0
        ]
        assert known == [key for key in ("a", "d", "e", "k7", "last") if key in {*keys, "last"}]


def test_the_hash_is_the_sum_of_products_that_the_module_promises():
    key = bytes(range(1, 41))
    offset_map = map_of()
    mapped(offset_map, segments([batch(attrs.evolve(rec(0, "x"), key=key))]))
    secret = [int(word) & (2**64 - 1) for word in offset_map.secret]
    words = struct.unpack(">6Q", key + bytes(8))
    total = (len(key) + secret[0]) % 2**64 * secret[1]
    for at in range(0, 6, 2):
        first, second = words[at] + secret[4 + at], words[at + 1] + secret[5 + at]
        total += first % 2**64 * (second % 2**64)
    total %= 2**128
    stored = {int(word) & (2**64 - 1) for word in offset_map.table if word}
    assert {total % 2**64, total >> 64} <= stored


def old_message(magic: int) -> bytes:
    body = struct.pack(">IbbqiI", 0, magic, 0, 0, -1, 0)
    return struct.pack(">qi", 3, len(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("before", [b"", keyed("a")], ids=["first", "behind a batch"])
def test_messages_of_the_old_formats_are_refused_by_their_name(magic, before):
    (source,) = segments([keyed("a")])
    content = before + old_message(magic) + bytes(50)
    source.file.pwrite([content], 0)
    source = attrs.evolve(source, size_bytes=len(content))
    with pytest.raises(OldMessageFormat, match=f"v{magic} at byte {len(before)}"):
        mapped_without_history([source])


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (keyed("a", at=1)[:-1] + b"?", "bad checksum at byte 70"),
        (keyed("a", at=1)[:-1], "incomplete at byte 70"),
        (keyed("a", at=0), "bad offset at byte 70"),
        (keyed("a", at=9, compression=Compression.GZIP)[:-9] + bytes(9), "bad checksum at byte 70"),
        (batch(rec(1, "a"), rec(1, "b"), last_offset=2), "malformed record at byte 70"),
        (batch(rec(1, "a"), rec(3, "b"), last_offset=2), "malformed record at byte 70"),
    ],
    ids=["checksum", "cut", "offset", "compressed", "offsets that stay", "an offset beyond"],
)
def test_damage_ends_the_mapping(second, reason):
    (source,) = segments([keyed("a")])
    content = keyed("a") + second
    source.file.pwrite([content], 0)
    with pytest.raises(CorruptBatch, match=reason):
        mapped_without_history([attrs.evolve(source, size_bytes=len(content))])


def mapped_without_history(source):
    return map_of().build(source, first_dirty=0, first_uncleanable=9, throttle=lambda _: None)


@pytest.mark.parametrize(
    ("buffer_bytes", "load_factor", "hash_key"),
    [(23, 1.0, HASH_KEY), (240, 0.09, HASH_KEY), (240, 0.9, bytes(15))],
)
def test_a_map_without_room_or_secret_is_refused(buffer_bytes, load_factor, hash_key):
    with pytest.raises(ValueError, match=r"too small|or more"):
        OffsetMap(buffer_bytes, load_factor=load_factor, hash_key=hash_key, bitmap_bytes_max=64)


def test_every_chunk_is_throttled_and_a_throttle_may_end_it():
    class StoppedError(Exception):
        pass

    def stop(size: int) -> None:
        assert size == 70
        raise StoppedError

    with pytest.raises(StoppedError):
        map_of().build(segments([keyed("a")]), first_dirty=0, first_uncleanable=1, throttle=stop)

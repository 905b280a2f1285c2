"""The packed table against a dict, with names that collide and without."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from offsetd_coordinator.committed_offsets import CommittedOffset
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.state.offset_table import OffsetTable, fresh_hash_seeds
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic.placement import partition_of
from shards import COLLIDING_SEEDS, commit, entry, offset_key

pytestmark = pytest.mark.kernel

Key = tuple[bytes, bytes, int]


def new_table(seeds: tuple[int, int, int, int] | None = None) -> OffsetTable:
    return OffsetTable(
        request_window_ms=1000, request_ids_max=100, hash_seeds=seeds or fresh_hash_seeds()
    )


def value(revision: int, metadata: bytes = b"") -> dict[str, Any]:
    return {
        "revision": revision,
        "offset": revision * 3,
        "leader_epoch": revision % 5 - 1,
        "metadata": metadata,
        "commit_timestamp_ms": revision + 10**12,
        "expire_timestamp_ms": -1,
    }


def contents(table: OffsetTable) -> dict[Key, dict[str, Any]]:
    return {
        (group_id, offset.topic, offset.partition): {
            name: getattr(offset, name) for name in value(0)
        }
        for group_id in table.group_ids()
        for offset in table.read_group(group_id)
    }


# Every name with every other collides if the seeds are zero: slower, so fewer steps.
@pytest.mark.parametrize(("seeds", "steps"), [(None, 6000), (COLLIDING_SEEDS, 800)])
def test_a_table_holds_what_a_dict_holds_after_any_stores_and_removals(
    seeds: tuple[int, int, int, int] | None, steps: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    table = new_table(seeds)
    model: dict[Key, dict[str, Any]] = {}
    groups = [b"", *(b"group-%d" % number * (number % 4 + 1) for number in range(60))]
    topics = [b"orders", b"o", b"t" * 249, b"", *groups[:5]]
    for step in range(steps):
        growing = step % 1000 < 700
        key = (chance.choice(groups), chance.choice(topics), chance.choice([0, 1, 2**31 - 1, -1]))
        if chance.random() < (0.8 if growing else 0.1):
            model[key] = value(step, b"m" * chance.choice([0, 0, 6, 6, 300]))
            table.store(*key, **model[key])
        else:
            assert table.remove(*key) == (model.pop(key, None) is not None)
    assert contents(table) == model
    assert table.size == len(model)
    assert table.group_count == len({group for group, _, _ in model})
    for group_id in groups:
        assert table.count(group_id) == sum(group == group_id for group, _, _ in model)
    for key in list(model):
        assert table.remove(*key)
    assert contents(table) == {}
    assert (table.group_count, int(table.counters[columns.NAME_COUNT])) == (0, 0)


def dense_key(chance: random.Random) -> Key:
    """Of few groups with many partitions: some next to each other, some at the ends of int32."""
    bases = [0, 60, 128, 2**31 - 70, -(2**31), -64]
    partition = chance.choice(bases) + chance.randrange(70)
    return chance.choice([b"a", b"b", b"c"]), b"t", min(partition, 2**31 - 1)


def extreme_value(chance: random.Random, revision: int) -> dict[str, Any]:
    """Of all that a record can hold, mostly what is plain."""
    stored = value(revision, b"m" * chance.choice([0, 0, 0, 0, 3, 40]))
    if chance.random() < 0.2:
        times = [-1, 0, 1, 2**42 - 1, 2**42, 2**62, -(2**63), 2**63 - 1]
        epochs = [-1, 0, 2**21 - 3, 2**21 - 2, 2**21 - 1, 2**31 - 1, -2, -(2**31)]
        stored["commit_timestamp_ms"] = chance.choice(times)
        stored["leader_epoch"] = chance.choice(epochs)
        stored["expire_timestamp_ms"] = chance.choice([-1, -1, 0, 5, -7, 2**63 - 1])
        stored["offset"] = chance.choice([0, -1, 2**63 - 1, -(2**63)])
    return stored


@pytest.mark.parametrize("seeds", [None, COLLIDING_SEEDS])
def test_partitions_that_lie_together_come_and_go_in_any_order(
    seeds: tuple[int, int, int, int] | None,
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    table = new_table(seeds)
    model: dict[Key, dict[str, Any]] = {}
    ends: dict[Key, int] = {}
    for step in range(12_000):
        key = dense_key(chance)
        if chance.random() < (0.7 if step % 4000 < 2500 else 0.2):
            model[key] = extreme_value(chance, step)
            offset = model[key]["offset"]
            table.store(*key, **model[key])
            if ends.get(key, -1) < offset:
                ends.pop(key, None)  # It is stale.
            if chance.random() < 0.1:
                end = min(max(offset + chance.choice((-1, 0, step)), 0), (1 << 63) - 2)
                report(table, key[0].decode(), "t", {key[2]: end})
                ends.pop(key, None)
                if end >= offset:
                    ends[key] = end
        else:
            assert table.remove(*key) == (model.pop(key, None) is not None)
            ends.pop(key, None)
        if step % 1000 == 0:
            assert contents(table) == model
    assert contents(table) == model
    reported = {
        (group_id, offset.topic, offset.partition): offset.end_offset
        for group_id in table.group_ids()
        for offset in table.read_group(group_id)
        if offset.end_offset >= 0
    }
    assert reported == ends
    for key in list(model):
        assert table.remove(*key)
    counts = (columns.ENTRY_COUNT, columns.BLOCK_COUNT, columns.EXTRA_COUNT, columns.NAME_COUNT)
    assert [int(table.counters[each]) for each in counts] == [0, 0, 0, 0]
    assert table.counters[columns.ENTRY_UNUSED] == table.counters[columns.ENTRY_END]


def test_rows_that_no_block_has_are_used_again() -> None:
    """Groups grow in turns, so that each is moved to where there is more room again and again."""
    table = new_table()
    for partition in range(50):
        for group in range(200):
            table.store(b"group-%d" % group, b"orders", partition, **value(partition))
    used, unused = (int(table.counters[each]) for each in (columns.ENTRY_END, columns.ENTRY_UNUSED))
    assert used - unused < 1.5 * table.size, "a block has little more room than it needs"
    assert unused < used // 2
    assert [table.count(b"group-%d" % group) for group in range(200)] == [50] * 200


def test_offsets_of_a_commit_take_a_row_each_and_nothing_else() -> None:
    table = new_table()
    for group in range(1000):
        for partition in range(50):
            table.store(b"group-%d" % group, b"orders", partition, **value(partition))
    counts = (columns.ENTRY_END, columns.ENTRY_UNUSED, columns.BLOCK_COUNT, columns.EXTRA_COUNT)
    assert [int(table.counters[each]) for each in counts] == [50_000, 0, 1000, 0]


def test_an_empty_topic_is_not_taken_for_the_one_whose_bytes_are_next() -> None:
    table = new_table()
    for index, topic in enumerate([b"", b"orders", b"payments"]):
        table.store(b"g", topic, 0, **value(index))
    assert {offset.topic: offset.revision for offset in table.read_group(b"g")} == {
        b"": 0,
        b"orders": 1,
        b"payments": 2,
    }


def test_offsets_that_were_expected_take_no_more_room_when_they_come() -> None:
    table = new_table()
    before = table.reserved_bytes
    table.expect(0)
    assert table.reserved_bytes == before
    table.expect(15_000)
    expected = table.reserved_bytes
    for group in range(300):
        for partition in range(50):
            table.store(b"group-%d" % group, b"orders", partition, **value(partition))
    assert table.reserved_bytes == expected > before
    assert table.size == 15_000


def test_entries_move_into_a_larger_array_that_was_made_before() -> None:
    table = new_table()
    for partition in range(1000):
        table.store(b"g", b"orders", partition, **value(partition))
    assert table.larger_entries(1) is None, "there is room"
    larger = table.larger_entries(100_000)
    assert larger is not None
    table.store(b"g", b"orders", 1000, **value(1000))  # Somebody commits meanwhile.
    table.use_entries(larger)
    assert columns.Table(*table.arrays).entries is larger
    assert table.larger_entries(100_000 - 1) is None
    assert [each.revision for each in sorted(table.read_group(b"g"))] == list(range(1001))


def test_a_larger_array_that_is_too_small_by_now_is_not_used() -> None:
    table = new_table()
    late = table.larger_entries(10_000)
    assert late is not None
    table.expect(1_000_000)
    grown = table.arrays
    table.use_entries(late)
    assert table.arrays is grown


def test_names_and_metadata_that_are_gone_leave_their_room_to_others() -> None:
    table = new_table()
    for step in range(5000):
        table.store(b"group-%d" % step, b"orders", 0, **value(step, b"m" * 50))
        table.remove(b"group-%d" % step, b"orders", 0)
    assert table.reserved_bytes < new_table().reserved_bytes + 20_000
    assert table.size == 0


def test_metadata_that_changes_its_length_again_and_again_does_not_pile_up() -> None:
    table = new_table()
    for step in range(5000):
        table.store(b"g", b"orders", 0, **value(step, b"m" * (step % 40)))
    assert contents(table) == {(b"g", b"orders", 0): value(4999, b"m" * 39)}
    assert table.reserved_bytes < new_table().reserved_bytes + 20_000


def test_an_offset_that_cannot_be_read_keeps_its_place_until_it_is_stored_again() -> None:
    table = new_table()
    table.store(b"g", b"orders", 0, **value(1, b"metadata"))
    table.mark_undecodable(b"g", b"orders", 0, revision=2)
    [unreadable] = table.read_group(b"g")
    assert (unreadable.topic, unreadable.partition, unreadable.revision) == (b"orders", 0, 2)
    assert not unreadable.is_decodable
    table.store(b"g", b"orders", 0, **value(3, b"new"))
    assert contents(table) == {(b"g", b"orders", 0): value(3, b"new")}


def test_named_partitions_are_located_and_absent_ones_are_said_to_be_so() -> None:
    table = new_table()
    table.store(b"g", b"orders", 0, **value(1))
    table.store(b"g", b"orders", 1, **value(2))
    table.store(b"h", b"orders", 2, **value(3))
    wanted = [(b"orders", 1), (b"orders", 2), (b"payments", 1)]
    assert table.partitions_of(table.locate(b"g", wanted)[:1]) == wanted[:1]
    assert table.locate(b"g", wanted)[1:].tolist() == [-1, -1]
    assert table.locate(b"nobody", wanted).tolist() == [-1] * 3
    assert table.locate(b"g", []).tolist() == []
    assert table.revision_of(b"g", b"orders", 1) == 2
    assert table.revision_of(b"g", b"orders", 7) is None


def report(table: OffsetTable, group: str, topic: str, ends: dict[int, int]) -> None:
    """Notes end offsets, as a replayed commit does."""
    entries = [entry(topic, partition, 0, end_offset=end) for partition, end in ends.items()]
    table.note_end_offsets(commit(group, *entries))


def end_offsets(table: OffsetTable, group_id: bytes) -> dict[int, int]:
    return {each.partition: each.end_offset for each in table.read_group(group_id)}


def test_a_reported_end_offset_stays_until_another_is_or_the_offset_goes() -> None:
    table = new_table()
    for partition in range(3):
        table.store(b"g", b"orders", partition, **value(1))
    report(table, "g", "orders", {0: 99, 1: 3, 7: 5})
    assert end_offsets(table, b"g") == {0: 99, 1: 3, 2: -1}, "there is none of partition 7"
    table.store(b"g", b"orders", 0, **value(2, b"m"))
    table.store(b"g", b"orders", 0, **value(3))
    report(table, "g", "orders", {1: 12})
    assert end_offsets(table, b"g") == {0: 99, 1: 12, 2: -1}
    assert contents(table)[b"g", b"orders", 0] == value(3)
    table.remove(b"g", b"orders", 0)
    table.store(b"g", b"orders", 0, **value(4))
    table.store(b"g", b"payments", 0, **value(4))
    assert [each.end_offset for each in table.read_group(b"g")].count(-1) == 3


def test_end_offsets_of_more_partitions_than_there_was_room_for() -> None:
    table = new_table()
    rows = len(table._table.extras)
    partitions = range(2 * rows)
    for partition in partitions:
        table.store(b"g", b"orders", partition, **value(1))
    ends = {partition: 3 + 2 * partition for partition in partitions}
    report(table, "g", "orders", ends)
    assert end_offsets(table, b"g") == ends
    assert len(table._table.extras) > rows


@pytest.mark.parametrize("partitions", [1, 50])
def test_groups_that_the_hash_puts_elsewhere_are_named(partitions: int) -> None:
    table = new_table()
    names = ["", "a", "group", "polygenelubricants", "grüppe", "🚀", "группа"]
    for name in names:
        table.store(name.encode(), b"orders", 0, **value(1))
        table.store(name.encode(), b"payments", 0, **value(1))
    for partition in range(partitions):
        misplaced = [name.encode() for name in names if partition_of(name, partitions) != partition]
        assert sorted(table.misplaced_groups(partition, partitions)) == sorted(misplaced)


@pytest.mark.parametrize("seeds", [None, COLLIDING_SEEDS])
def test_rows_are_found_by_group_topic_and_partition_and_give_their_keys(
    seeds: tuple[int, int, int, int] | None,
) -> None:
    table = new_table(seeds)
    partitions = [(topic, number) for topic in (b"orders", b"o", b"") for number in (0, 7, -1)]
    for revision, (topic, number) in enumerate(partitions):
        table.store(b"g", topic, number, **value(revision))
        table.store(b"orders", b"g", number, **value(revision))
    assert sorted(table.partitions_of(table.entries_of(b"g"))) == sorted(partitions)
    named = table.locate(b"g", [(b"o", 7), (b"g", 7), (b"nothing", 0), (b"", -1)])
    assert [row >= 0 for row in named.tolist()] == [True, False, False, True]
    found = named[named >= 0]
    assert table.partitions_of(found) == [(b"o", 7), (b"", -1)]
    of_topics = table.entries_of_topics(b"g", [b"nothing", b"", b"o"])
    assert sorted(table.partitions_of(of_topics)) == sorted(
        each for each in partitions if each[0] != b"orders"
    )
    keys, ends = table.keys_of(b"g", found)
    expected = [offset_key("g", "o", 7), offset_key("g", "", -1)]
    assert keys[: ends[-1]].tobytes() == b"".join(expected)
    assert ends.tolist() == [len(expected[0]), len(expected[0]) + len(expected[1])]


def test_of_a_group_that_is_not_there_there_are_no_rows_and_no_keys() -> None:
    table = new_table()
    entries = table.entries_of(b"g")
    assert (entries.size, table.partitions_of(entries)) == (0, [])
    assert table.entries_of_topics(b"g", [b"t"]).size == 0
    assert table.keys_of(b"g", entries)[1].size == 0


def test_columns_are_what_is_read_one_by_one() -> None:
    table = new_table()
    for topic in (b"b", b"", b"a" * 300, b"ab"):
        for partition in (7, 0, 2**31 - 1):
            table.store(b"g", topic, partition, **value(partition % 11, b"m" * (partition % 3)))
    table.store(b"other", b"b", 0, **value(1))
    table.mark_undecodable(b"g", b"ab", 3, revision=5)
    stored = table.read_columns(b"g")
    columns_of_rows = zip(*sorted(table.read_group(b"g")), strict=True)
    rows = dict(zip(CommittedOffset._fields, columns_of_rows, strict=True))
    named = ("topic", "partition", "offset", "leader_epoch", "metadata")
    named += ("expire_timestamp_ms", "end_offset", "is_decodable")
    assert [tuple(column) for column in stored] == [rows[name] for name in named]
    assert list(stored.places().values()) == list(range(13))
    assert table.read_columns(b"nobody").topics == []


def test_offsets_are_found_by_spans() -> None:
    table = new_table()
    table.store(b"g", b"t", 1, **value(5))
    table.mark_undecodable(b"g", b"t", 2, revision=6)
    names = padded_copy(b"gtu")
    keys = np.array([[1, 1, 1], [1, 1, 2], [1, 1, 3], [2, 1, 1]], np.int64)
    assert table.offsets_at(names, 1, keys) == [15, None, None, None]
    assert table.offsets_at(names, 1, keys[:0]) == []

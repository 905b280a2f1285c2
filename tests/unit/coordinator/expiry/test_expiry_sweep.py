"""Sweeps over a shard: what goes, what stays, slice by slice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from expiries import RETENTION_MS, TERMS, batches_of, classic_value, slices
from offsetd_coordinator.expiry.expiry_rules import ExpiryBase, ExpiryTerms
from offsetd_coordinator.expiry.expiry_sweep import SliceLimits
from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from shards import (
    NOW_MS,
    batch_of,
    commit,
    consumer_group_key,
    end_of_transaction,
    entry,
    group_key,
    listed_groups,
    new_shard,
    offset_key,
    offset_value,
    offsets_of,
    replay,
    replayed,
    settings_key,
    state_of,
)
from shards import ask as asked

if TYPE_CHECKING:
    from offsetd_coordinator.shard.shard import Shard

pytestmark = pytest.mark.kernel

DUE_MS = NOW_MS + RETENTION_MS
UNREADABLE = b"\0\x63"
SHORT_RETENTION = GroupSettings(retention_ms=5).encode()


def groups_of(shard: Shard) -> list[str]:
    return sorted(each.group_id.decode() for each in listed_groups(shard))


@pytest.mark.parametrize(("now_ms", "is_there"), [(DUE_MS - 1, True), (DUE_MS, False)])
def test_an_offset_and_its_group_go_at_the_millisecond_at_which_they_expire(
    now_ms: int, is_there: bool
) -> None:
    shard = new_shard()
    asked(shard, commit("g", entry("t", 0, 5), entry("u", 3, 7)))
    written = [decision for _, decision in slices(shard, now_ms) if decision]
    assert groups_of(shard) == (["g"] if is_there else [])
    if is_there:
        assert not written
        return
    [decision] = written
    [batch] = batches_of(decision)
    records = decode_batch(batch).records
    keys = {offset_key("g", "t", 0), offset_key("g", "u", 3)}
    # The group's tombstone is last, as in Kafka also of one that never had a record.
    assert {each.key for each in records[:2]} == keys
    assert records[2].key == group_key("g")
    assert all(each.value is None for each in records)


def test_a_commit_after_an_offset_was_found_old_keeps_it() -> None:
    shard = new_shard()
    asked(shard, commit("g", entry("t", 0, 5)))
    asked(shard, commit("g", entry("t", 0, 5)), NOW_MS + 1)
    assert not any(decision for _, decision in slices(shard, DUE_MS))
    assert offsets_of(shard, "g") == {("t", 0): 5}


def test_what_is_left_of_a_group_keeps_it() -> None:
    shard = new_shard()
    asked(shard, commit("g", entry("t", 0, 5)))
    asked(shard, commit("g", entry("t", 1, 6)), NOW_MS + 1)
    [found] = [found for found, decision in slices(shard, DUE_MS) if decision]
    assert [(each.group_id, each.offset_count, each.is_gone) for each in found.expired] == [
        (b"g", 1, False)
    ]
    assert offsets_of(shard, "g") == {("t", 1): 6}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Empty since just now, since long ago, and nobody knows since when.
        (classic_value(state_ms=NOW_MS + 1), {("read", 0), ("unread", 0)}),
        (classic_value(state_ms=NOW_MS), set()),
        (classic_value(), set()),
        (classic_value(protocol_type="connect", state_ms=NOW_MS), set()),
        (classic_value("read", "other"), {("read", 0)}),
        (classic_value("read", protocol_type="connect"), {("read", 0), ("unread", 0)}),
        (UNREADABLE, {("read", 0), ("unread", 0)}),
    ],
)
def test_offsets_of_a_classic_group_go_by_its_record(
    value: bytes, expected: set[tuple[str, int]]
) -> None:
    shard = new_shard()
    asked(shard, commit("g", entry("read", 0, 5), entry("unread", 0, 7)))
    replay(shard, batch_of(shard.offset_next, (group_key("g"), value)))
    list(slices(shard, DUE_MS))
    assert {(each.topic.decode(), each.partition) for each in shard.fetch(b"g")} == expected
    assert (groups_of(shard) == []) is (not expected)


def test_a_late_commit_to_an_empty_group_goes_only_if_it_is_to_be_as_in_kafka() -> None:
    for base, is_there in ((ExpiryBase.LATEST, True), (ExpiryBase.KAFKA, False)):
        shard = replayed(batch_of(0, (group_key("g"), classic_value(state_ms=NOW_MS))))
        asked(shard, commit("g", entry("t", 0, 5)), DUE_MS - 1)
        list(slices(shard, DUE_MS, ExpiryTerms(retention_ms=RETENTION_MS, base=base)))
        assert bool(offsets_of(shard, "g")) is is_there


def test_groups_without_offsets_go_if_they_are_empty_and_have_a_record() -> None:
    shard = replayed(
        batch_of(
            0,
            (group_key("empty"), classic_value(state_ms=NOW_MS)),
            (group_key("full"), classic_value("t")),
            (group_key("unreadable"), UNREADABLE),
            (consumer_group_key("kip-848", 3), bytes.fromhex("0000 00000004 00")),
        )
    )
    list(slices(shard, NOW_MS + 1))
    assert groups_of(shard) == ["full", "unreadable"]


def test_all_records_of_a_kip_848_group_go_with_its_last_offset() -> None:
    shard = replayed(
        batch_of(
            0,
            (consumer_group_key("g", 3), bytes.fromhex("0000 00000004 00")),
            (consumer_group_key("g", 6), bytes.fromhex("0000 00000004 00")),
            (offset_key("g"), offset_value(4)),
        )
    )
    [decision] = [decision for _, decision in slices(shard, DUE_MS) if decision]
    [batch] = batches_of(decision)
    keys = [each.key for each in decode_batch(batch).records]
    assert keys == [offset_key("g"), consumer_group_key("g", 6), consumer_group_key("g", 3)]
    assert groups_of(shard) == []


@pytest.mark.parametrize("commits", [None, True, False])
def test_an_offset_for_which_a_transaction_is_open_stays_and_so_does_its_group(
    commits: bool | None,
) -> None:
    shard = new_shard()
    asked(shard, commit("g", entry("t", 0, 5), entry("t", 1, 6)))
    transaction = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    records = (offset_key("g", "t", 0), offset_value(8))
    replay(shard, batch_of(shard.offset_next, records, **transaction))
    if commits is not None:
        replay(shard, end_of_transaction(shard.offset_next, 9, commit=commits))
    list(slices(shard, DUE_MS))
    assert offsets_of(shard, "g") == ({("t", 0): 5} if commits is None else {})
    assert groups_of(shard) == (["g"] if commits is None else [])


def test_a_group_of_which_there_are_only_pending_offsets_stays() -> None:
    shard = new_shard()
    transaction = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    replay(shard, batch_of(0, (group_key("g"), classic_value(state_ms=NOW_MS))))
    replay(shard, batch_of(1, (offset_key("g"), offset_value(8)), **transaction))
    assert not any(decision for _, decision in slices(shard, DUE_MS))
    replay(shard, end_of_transaction(2, 9, commit=False))
    assert any(decision for _, decision in slices(shard, DUE_MS))
    assert groups_of(shard) == []


@pytest.mark.parametrize(("expire_ms", "is_there"), [(DUE_MS + 1, True), (DUE_MS, False)])
def test_a_time_that_a_broker_was_given_with_a_commit_counts_alone(
    expire_ms: int, is_there: bool
) -> None:
    value = offset_value(5, version=1, commit_timestamp_ms=0, expire_timestamp_ms=expire_ms)
    shard = replayed(batch_of(0, (offset_key("g"), value)))
    list(slices(shard, DUE_MS))
    assert bool(offsets_of(shard, "g")) is is_there


def test_a_record_that_cannot_be_read_does_not_expire() -> None:
    shard = replayed(batch_of(0, (offset_key("g"), UNREADABLE)))
    assert not any(decision for _, decision in slices(shard, NOW_MS * 2))
    assert groups_of(shard) == ["g"]


def test_keys_of_old_brokers_go_too_so_that_compaction_brings_nothing_back() -> None:
    old_key = offset_key("g", version=0)
    shard = replayed(batch_of(0, (old_key, offset_value(5))))
    [decision] = [decision for _, decision in slices(shard, DUE_MS) if decision]
    [batch] = batches_of(decision)
    assert old_key in {each.key for each in decode_batch(batch).records}


def test_nothing_expires_of_a_group_while_its_lease_is_held() -> None:
    shard = new_shard()
    replay(shard, batch_of(0, (group_key("g"), classic_value(state_ms=NOW_MS))))
    asked(shard, commit("g", entry("t", 0, 5)))
    assert not any(slice_[1] for slice_ in slices(shard, DUE_MS, has_lease=lambda _: True))
    assert any(slice_[1] for slice_ in slices(shard, DUE_MS))


@pytest.mark.parametrize("limits", [
    SliceLimits(),
    SliceLimits(rows=3, groups=2, expired_groups=1, offsets=1),
    SliceLimits(rows=8, groups=4, expired_groups=2, offsets=5),
    SliceLimits(rows=64, groups=64, expired_groups=64, offsets=3),
])  # fmt: skip
@pytest.mark.parametrize("message_bytes_max", [200, 1_048_588])
def test_many_groups_go_whatever_a_slice_takes_and_a_replay_says_the_same(
    limits: SliceLimits, message_bytes_max: int
) -> None:
    shard = new_shard(message_bytes_max=message_bytes_max)
    log: list[bytes] = []

    def put(group: str, topic: str, partition: int, now_ms: int) -> None:
        decision = asked(shard, commit(group, entry(topic, partition, 1)), now_ms)
        assert decision.batch is not None
        log.append(decision.batch)

    for number in range(30):
        for partition in range(number % 7 + 1):
            put(f"old-{number}", f"t{partition % 3}", partition, NOW_MS)
            put(f"half-{number}", "t", partition, NOW_MS + partition % 2)
        put(f"new-{number}", "t", 0, NOW_MS + 1)
    largest = 0
    for found, decision in slices(shard, DUE_MS, limits=limits):
        largest = max(largest, sum(each.offset_count for each in found.expired))
        if decision:
            log += batches_of(decision)
    assert largest <= 2 * limits.offsets
    left = {name for name in groups_of(shard) if not name.startswith("new-")}
    assert left == {f"half-{number}" for number in range(30) if number % 7}
    assert all(partition % 2 for name in left for _, partition in offsets_of(shard, name))
    assert state_of(replayed(*log)) == state_of(shard)


def test_a_group_larger_than_a_slice_goes_in_several_and_its_record_in_the_last() -> None:
    shard = new_shard()
    asked(shard, commit("g", *(entry("t", partition, 1) for partition in range(40))))
    asked(shard, commit("h", *(entry("t", partition, 1) for partition in range(3))), NOW_MS + 1)
    limits = SliceLimits(rows=16, offsets=4)
    expired = [
        (each.offset_count, each.is_gone)
        for found, _ in slices(shard, DUE_MS, limits=limits)
        for each in found.expired
    ]
    assert expired == [(4, False)] * 9 + [(4, True)]
    assert groups_of(shard) == ["h"]


def test_between_slices_anything_may_happen() -> None:
    shard = new_shard()
    for number in range(20):
        asked(shard, commit(f"g{number}", entry("t", 0, 1)))
    limits = SliceLimits(rows=4, groups=4, expired_groups=1, offsets=1)
    for turn, _ in enumerate(slices(shard, DUE_MS, limits=limits)):
        asked(shard, commit(f"g{turn % 20}", entry("t", 0, 2)), DUE_MS)
        asked(shard, commit(f"late{turn}", entry("u", 0, 2)), DUE_MS)
    offsets = {name: offsets_of(shard, name) for name in groups_of(shard)}
    assert all(each in ({("t", 0): 2}, {("u", 0): 2}) for each in offsets.values())


@pytest.mark.parametrize(
    ("ago_ms", "is_warned"), [(RETENTION_MS - 101, False), (RETENTION_MS - 100, True)]
)
def test_a_group_is_warned_of_before_it_loses_offsets(ago_ms: int, is_warned: bool) -> None:
    shard = new_shard()
    asked(shard, commit("g", entry("t", 0, 5), entry("t", 1, 5)))
    terms = ExpiryTerms(retention_ms=RETENTION_MS, warning_ms=100)
    warned = [each for found, _ in slices(shard, NOW_MS + ago_ms, terms) for each in found.warned]
    assert warned == ([(b"g", 2, DUE_MS)] if is_warned else [])


def test_who_has_a_short_retention_is_not_warned_in_the_first_half_of_it() -> None:
    terms = ExpiryTerms(retention_ms=RETENTION_MS, warning_ms=100 * RETENTION_MS)
    shard = new_shard()
    asked(shard, commit("g", entry("t", 0, 5)))
    found = {
        ago_ms: any(found.warned for found, _ in slices(shard, NOW_MS + ago_ms, terms))
        for ago_ms in (0, 499, 500, 999)
    }
    assert found == {0: False, 499: False, 500: True, 999: True}


def test_without_retention_nothing_expires_but_what_has_a_time_of_its_own() -> None:
    shard = replayed(
        batch_of(
            0,
            (offset_key("g"), offset_value(5)),
            (offset_key("h"), offset_value(5, version=1, expire_timestamp_ms=NOW_MS)),
        )
    )
    list(slices(shard, NOW_MS * 2, ExpiryTerms(retention_ms=None)))
    assert groups_of(shard) == ["g"]
    assert TERMS.retention_ms == RETENTION_MS


def test_no_slice_looks_at_more_groups_with_records_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Retentions of groups' own are looked for slice by slice, too."""
    shard = new_shard()
    names = [f"g{number}" for number in range(300)]
    for name in names:
        replay(shard, batch_of(shard.offset_next, (settings_key(name), SHORT_RETENTION)))
        asked(shard, commit(name, entry("t", 0, 5)))
    known = shard._state.known_group_records
    looks: list[bytes] = []

    def counted(group_id: bytes) -> Any:
        looks.append(group_id)
        return known(group_id)

    monkeypatch.setattr(shard._state, "known_group_records", counted)
    most = 0
    terms = ExpiryTerms(retention_ms=None)
    for _ in slices(shard, NOW_MS + 5, terms, limits=SliceLimits(groups=4, records=10)):
        most = max(most, len(looks))
        looks.clear()
    assert 0 < most < 100
    assert groups_of(shard) == []

"""What a shard decides on commits, and what it answers to reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.committed_offsets import CommittedOffset
from offsetd_coordinator.errors import (
    Conflict,
    CoordinatorError,
    InvalidCommitSize,
    OffsetConflict,
    OffsetNotMonotonic,
    RecordUndecodable,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from offsetd_coordinator.requests import CommitReply, OffsetEntry, Precondition
from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.offsets_topic.group_listing import GroupListing, GroupState, GroupType
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, decode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from shards import (
    NOW_MS,
    answer,
    ask,
    batch_of,
    commit,
    consumer_group_key,
    entry,
    fetched,
    group_key,
    listed_groups,
    new_shard,
    offset_key,
    offset_value,
    offsets_of,
    replay,
    replayed,
    state_of,
)

if TYPE_CHECKING:
    from offsetd_coordinator.shard.shard import Shard

pytestmark = pytest.mark.kernel

# The value of type 5, ConsumerGroupMemberMetadata: a member subscribed to nothing.
CONSUMER_MEMBER = bytes.fromhex("0000 00 00 01 01 01 00 00000000 00 00")
CONSUMER_EPOCH = bytes.fromhex("0000 00000001 00")


def classic_group(*member_ids: str, protocol_type: str = "consumer") -> bytes:
    members = tuple(
        GroupMember(
            member_id=member_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=1,
            subscription=b"",
            assignment=b"",
        )
        for member_id in member_ids
    )
    return GroupMetadataValue(protocol_type=protocol_type, generation=1, members=members).encode()


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_commit_is_written_as_kafka_writes_it(version: int) -> None:
    shard = new_shard(offset_commit_value_version=version)
    shard.end_load(offset_next=41, leader_epoch=6)
    request = commit(
        "billing",
        entry("orders", 0, 10, leader_epoch=3, metadata="größe 🚀".encode()),
        entry("payments", 2**31 - 1, 2**63 - 1),
    )
    decision = shard.decide(request, NOW_MS)
    assert decision.reply == CommitReply(42)
    assert (decision.last_offset, decision.max_timestamp_ms) == (42, NOW_MS)
    assert decision.batch is not None
    batch = decode_batch(decision.batch)
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (41, 42, 6)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (NOW_MS, NOW_MS)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert batch.attributes == 0
    assert [decode_key(record.key or b"") for record in batch.records] == [
        OffsetKey(group="billing", topic="orders", partition=0),
        OffsetKey(group="billing", topic="payments", partition=2**31 - 1),
    ]
    epoch = 3 if version >= 3 else -1
    values = [
        OffsetCommitValue(
            offset=10, leader_epoch=epoch, metadata="größe 🚀", commit_timestamp_ms=NOW_MS
        ),
        OffsetCommitValue(offset=2**63 - 1, commit_timestamp_ms=NOW_MS),
    ]
    assert [record.value for record in batch.records] == [value.encode(version) for value in values]
    assert [record.headers for record in batch.records] == [(), ()]


def test_deciding_changes_nothing_until_the_decision_is_applied() -> None:
    shard = new_shard()
    answer(shard, commit("g", entry("t", 0, 1)))
    before = state_of(shard)
    decision = shard.decide(commit("g", entry("t", 0, 2), request_id=b"1"), NOW_MS)
    assert state_of(shard) == before
    assert shard.offset_next == 1
    shard.apply(decision)
    assert offsets_of(shard, "g") == {("t", 0): 2}
    assert shard.offset_next == 2


def test_a_stored_offset_is_read_back_whole() -> None:
    shard = new_shard()
    answer(shard, commit("g", entry("a", 0, 1)))
    stored = entry("orders", 7, 12, leader_epoch=4, metadata=b"m", end_offset=100)
    answer(shard, commit("g", stored))
    assert shard.fetch(b"g")[1:] == [
        CommittedOffset(
            topic=b"orders",
            partition=7,
            offset=12,
            leader_epoch=4,
            metadata=b"m",
            commit_timestamp_ms=NOW_MS,
            expire_timestamp_ms=-1,
            revision=1,
            end_offset=100,
        )
    ]


def test_offsets_come_sorted_by_topic_and_partition_and_absent_ones_not_at_all() -> None:
    shard = new_shard()
    for topic, partition in [("b", 1), ("a", 10), ("b", 0), ("a", 9), ("é", 0)]:
        answer(shard, commit("g", entry(topic, partition, 1)))
    everything = [(b"a", 9), (b"a", 10), (b"b", 0), (b"b", 1), ("é".encode(), 0)]
    assert [(each.topic, each.partition) for each in shard.fetch(b"g")] == everything
    some = fetched(shard, b"g", [(b"b", 1), (b"a", 9), (b"c", 0)])
    assert [(each.topic, each.partition) for each in some] == [("a", 9), ("b", 1)]
    assert shard.fetch(b"nobody") == []


def test_an_end_offset_stays_until_another_is_reported_and_is_gone_after_a_restart() -> None:
    shard = new_shard()
    first = ask(shard, commit("g", entry("t", 0, 1, end_offset=9)))
    second = ask(shard, commit("g", entry("t", 0, 2)))
    assert [each.end_offset for each in shard.fetch(b"g")] == [9]
    assert first.batch is not None
    assert second.batch is not None
    restarted = replayed(first.batch, second.batch)
    assert [each.end_offset for each in restarted.fetch(b"g")] == [-1]


@pytest.mark.parametrize("offsets", [(20, 26), (20, 26, 10), (26,)])
def test_an_end_offset_below_a_committed_offset_is_none(offsets: tuple[int, ...]) -> None:
    """What a commit has disproved stays so, also when the offset goes back."""
    shard = new_shard()
    first, *later = offsets
    ask(shard, commit("g", entry("t", 0, first, end_offset=25)))
    for offset in later:
        ask(shard, commit("g", entry("t", 0, offset)))
    assert [each.end_offset for each in shard.fetch(b"g")] == [-1]


EXPECTED_OFFSET, EXPECTED_REVISION = Precondition.EXPECTED_OFFSET, Precondition.EXPECTED_REVISION
MUST_NOT_EXIST = Precondition.MUST_NOT_EXIST


@pytest.mark.parametrize(
    ("conditions", "refusal"),
    [
        ({}, None),
        ({"precondition": EXPECTED_OFFSET, "expected": 50}, None),
        ({"precondition": EXPECTED_OFFSET, "expected": 51}, OffsetConflict),
        ({"precondition": EXPECTED_REVISION, "expected": 1}, None),
        ({"precondition": EXPECTED_REVISION, "expected": 0}, OffsetConflict),
        ({"precondition": EXPECTED_REVISION, "expected": 50}, OffsetConflict),
        ({"precondition": MUST_NOT_EXIST}, OffsetConflict),
        ({"monotonic": True, "offset": 50}, None),
        ({"monotonic": True, "offset": 51}, None),
        ({"monotonic": True, "offset": 49}, OffsetNotMonotonic),
        ({"monotonic": True, "offset": 49, "precondition": EXPECTED_OFFSET, "expected": 50},
         OffsetNotMonotonic),
        ({"monotonic": True, "offset": 49, "precondition": EXPECTED_OFFSET, "expected": 1},
         OffsetConflict),
    ],
)  # fmt: skip
def test_a_condition_is_judged_against_what_is_stored(
    conditions: dict[str, Any], refusal: type[CoordinatorError] | None
) -> None:
    shard = new_shard()
    answer(shard, commit("other", entry("t", 0, 1)))
    answer(shard, commit("g", entry("t", 0, 50)))
    conditions = {"offset": 60, **conditions}
    decision = shard.decide(commit("g", OffsetEntry(topic=b"t", partition=0, **conditions)), NOW_MS)
    assert (decision.batch is None) == (refusal is not None)
    assert type(decision.refusal) is (refusal or type(None))
    if isinstance(decision.refusal, OffsetConflict | OffsetNotMonotonic):
        stored = Conflict(topic=b"t", partition=0, offset=50, revision=1)
        assert decision.refusal.conflicts == (stored,)
        assert decision.refusal.total == 1


@pytest.mark.parametrize(
    ("group", "conditions", "accepted"),
    [
        ("g", {"precondition": MUST_NOT_EXIST}, True),
        ("g", {"monotonic": True}, True),
        ("g", {"precondition": EXPECTED_OFFSET, "expected": 0}, False),
        ("g", {"precondition": EXPECTED_REVISION, "expected": 0}, False),
        ("nobody", {"precondition": EXPECTED_OFFSET, "expected": 5}, False),
        ("nobody", {"precondition": MUST_NOT_EXIST, "monotonic": True}, True),
    ],
)
def test_a_condition_on_what_is_not_stored_holds_only_if_that_is_the_condition(
    group: str, conditions: dict[str, Any], accepted: bool
) -> None:
    shard = new_shard()
    answer(shard, commit("g", entry("other", 0, 5)))
    decision = shard.decide(commit(group, entry("t", 0, 0, **conditions)), NOW_MS)
    assert (decision.refusal is None) == accepted
    if isinstance(decision.refusal, OffsetConflict):
        absent = Conflict(topic=b"t", partition=0, offset=None, revision=None)
        assert decision.refusal.conflicts == (absent,)


def test_one_condition_that_fails_refuses_the_whole_commit_and_lists_what_failed() -> None:
    shard = new_shard()
    answer(shard, commit("g", *(entry("t", partition, 5) for partition in range(4))))
    refused = shard.decide(
        commit(
            "g",
            entry("t", 0, 6),
            entry("t", 1, 1, monotonic=True),
            entry("t", 2, 6, precondition=EXPECTED_OFFSET, expected=4),
            entry("t", 3, 6, precondition=MUST_NOT_EXIST),
        ),
        NOW_MS,
    ).refusal
    assert isinstance(refused, OffsetConflict)
    assert [(each.partition, each.revision) for each in refused.conflicts] == [(2, 2), (3, 3)]


def test_a_refusal_lists_a_hundred_conflicts_and_counts_all() -> None:
    shard = new_shard()
    answer(shard, commit("g", *(entry("t", partition, 5) for partition in range(250))))
    back = [entry("t", partition, 4, monotonic=True) for partition in range(250)]
    refused = shard.decide(commit("g", *back), NOW_MS).refusal
    assert isinstance(refused, OffsetNotMonotonic)
    assert [each.partition for each in refused.conflicts] == list(range(100))
    assert refused.total == 250


@pytest.mark.parametrize(
    ("records", "refusal"),
    [
        ([], None),
        ([(group_key("g"), classic_group())], None),
        ([(group_key("g"), classic_group(protocol_type=""))], None),
        ([(group_key("g"), classic_group("member"))], UnknownMemberId),
        ([(group_key("g"), classic_group("member", protocol_type="connect"))], UnknownMemberId),
        ([(group_key("g"), classic_group("member")), (group_key("g"), None)], None),
        ([(group_key("g"), b"\0\x09")], RecordUndecodable),
        ([(consumer_group_key("g", 3), CONSUMER_EPOCH)], None),
        ([(consumer_group_key("g", 5, member_id="m"), CONSUMER_MEMBER)], UnknownMemberId),
        ([(consumer_group_key("h", 5, member_id="m"), CONSUMER_MEMBER)], None),
        ([(offset_key("g", "other"), b"\0\x09")], None),
        ([(offset_key("g", "t"), b"\0\x09")], None),
    ],
)
def test_who_is_no_member_commits_only_to_a_group_without_members(
    records: list[tuple[bytes, bytes | None]], refusal: type[CoordinatorError] | None
) -> None:
    shard = replayed(*(batch_of(index, record) for index, record in enumerate(records)))
    decision = shard.decide(commit("g", entry("t", 0, 1)), NOW_MS)
    assert type(decision.refusal) is (refusal or type(None))


@pytest.mark.parametrize(
    "condition",
    [
        {"precondition": EXPECTED_OFFSET},
        {"precondition": EXPECTED_REVISION},
        {"precondition": MUST_NOT_EXIST},
        {"monotonic": True},
    ],
)
def test_no_condition_can_be_judged_against_a_record_that_cannot_be_read(
    condition: dict[str, Any],
) -> None:
    shard = replayed(batch_of(0, (offset_key("g"), b"\0\x09")))
    refused = shard.decide(commit("g", entry("t", 0, 1, **condition)), NOW_MS).refusal
    assert isinstance(refused, RecordUndecodable)
    assert "t:0" in str(refused)
    with pytest.raises(RecordUndecodable):
        shard.fetch(b"g")
    answer(shard, commit("g", entry("t", 0, 1)))
    assert offsets_of(shard, "g") == {("t", 0): 1}


def test_a_commit_that_does_not_fit_a_batch_is_refused_and_the_largest_that_fits_is_not() -> None:
    shard = new_shard()
    batch = shard.decide(commit("g", entry("t", 0, 1, metadata=b"m" * 500)), NOW_MS).batch
    assert batch is not None
    for bytes_max, accepted in [(len(batch), True), (len(batch) - 1, False)]:
        shard = new_shard(message_bytes_max=bytes_max)
        decision = shard.decide(commit("g", entry("t", 0, 1, metadata=b"m" * 500)), NOW_MS)
        assert (decision.refusal is None) == accepted
        if not accepted:
            assert isinstance(decision.refusal, InvalidCommitSize)


def test_a_commit_of_thousands_of_partitions_is_one_batch() -> None:
    shard = new_shard()
    entries = [entry(f"topic-{index // 100}", index % 100, index) for index in range(5000)]
    assert answer(shard, commit("g", *entries)) == CommitReply(4999)
    assert len(offsets_of(shard, "g")) == 5000


def test_a_request_id_is_answered_again_and_not_applied_twice() -> None:
    shard = new_shard()
    first = answer(shard, commit("g", entry("t", 0, 1), request_id=b"one"))
    answer(shard, commit("g", entry("t", 0, 2)))
    again = shard.decide(commit("g", entry("t", 0, 1), request_id=b"one"), NOW_MS + 60_000)
    assert (again.reply, again.batch, again.refusal) == (first, None, None)
    assert offsets_of(shard, "g") == {("t", 0): 2}


@pytest.mark.parametrize(
    ("group", "request_id", "later_ms"),
    [("g", b"one", 60_001), ("g", b"two", 0), ("h", b"one", 0), ("g", b"", 0), ("go", b"ne", 0)],
)
def test_other_ids_other_groups_and_what_is_too_old_are_new_requests(
    group: str, request_id: bytes, later_ms: int
) -> None:
    shard = new_shard()
    answer(shard, commit("g", entry("t", 0, 1), request_id=b"one"))
    request = commit(group, entry("t", 0, 1), request_id=request_id)
    assert shard.decide(request, NOW_MS + later_ms).batch is not None


def test_a_request_id_is_known_again_after_a_replay() -> None:
    shard = new_shard()
    decision = ask(shard, commit("g", entry("t", 0, 1), entry("t", 1, 1), request_id=b"one"))
    assert decision.batch is not None
    [header] = decode_batch(decision.batch).records[0].headers
    assert header == ("offsetd-request-id", b"one")
    assert decode_batch(decision.batch).records[1].headers == ()
    restarted = replayed(decision.batch)
    again = restarted.decide(commit("g", entry("t", 0, 9), request_id=b"one"), NOW_MS)
    assert (again.reply, again.batch) == (CommitReply(1), None)


def test_a_retry_is_answered_even_if_the_group_has_members_by_now() -> None:
    shard = new_shard()
    reply = answer(shard, commit("g", entry("t", 0, 1), request_id=b"one"))
    replay(shard, batch_of(1, (group_key("g"), classic_group("member"))))
    assert shard.decide(commit("g", entry("t", 0, 1), request_id=b"one"), NOW_MS).reply == reply


@pytest.mark.parametrize("count_max", [0, 1, 5, 1000])
def test_at_most_so_many_request_ids_are_remembered_the_newest(count_max: int) -> None:
    shard = new_shard(request_ids_per_partition_max=count_max)
    requests = [commit("g", entry("t", 0, 1), request_id=b"%d" % index) for index in range(1500)]
    for request in requests:
        answer(shard, request)
    known = [shard.decide(request, NOW_MS).batch is None for request in requests]
    assert known == [False] * (1500 - count_max) + [True] * count_max


def test_a_request_id_is_known_to_the_end_of_its_window_whatever_came_since() -> None:
    shard = new_shard()
    first = commit("g", entry("t", 0, 1), request_id=b"first")
    answer(shard, first, NOW_MS)
    answer(shard, commit("g", entry("t", 0, 2), request_id=b"second"), NOW_MS + 60_000)
    assert shard.decide(first, NOW_MS + 60_000).batch is None


def test_request_ids_that_are_out_of_the_window_make_way() -> None:
    shard = new_shard(request_id_window_ms=100)
    empty_bytes = shard.counters().table_bytes
    for index in range(5000):
        request = commit("g", entry("t", 0, 1), request_id=b"%d" % index)
        answer(shard, request, NOW_MS + index)
    assert shard.counters().table_bytes < empty_bytes + 20_000


def test_a_request_id_used_again_after_its_window_is_not_forgotten_before_older_ones() -> None:
    shard = new_shard(request_id_window_ms=100, request_ids_per_partition_max=2)
    requests = {name: commit("g", entry("t", 0, 1), request_id=name) for name in (b"a", b"b", b"c")}
    answer(shard, requests[b"a"], NOW_MS)
    answer(shard, requests[b"b"], NOW_MS + 50)
    assert ask(shard, requests[b"a"], NOW_MS + 120).batch is not None, "its window has ended"
    answer(shard, requests[b"c"], NOW_MS + 130)
    known = {name: shard.decide(requests[name], NOW_MS + 130).batch is None for name in requests}
    assert known == {b"a": True, b"b": False, b"c": True}


def test_pending_offsets_fail_a_fetch_that_wants_stable_ones() -> None:
    transactional: dict[str, Any] = {"producer_id": 5, "is_transactional": True}
    shard = replayed(
        batch_of(0, (offset_key("g", "t", 0), offset_value(1))),
        batch_of(1, (offset_key("g", "t", 1), offset_value(2)), **transactional),
    )
    assert offsets_of(shard, "g") == {("t", 0): 1}
    assert fetched(shard, b"g", [(b"t", 0)], require_stable=True)
    assert fetched(shard, b"h", require_stable=True) == []
    assert len(fetched(shard, b"g", require_stable=False)) == 1
    for partitions in (None, [(b"t", 1)], [(b"t", 0), (b"t", 1)]):
        with pytest.raises(UnstableOffsetCommit):
            fetched(shard, b"g", partitions, require_stable=True)


def listed(shard: Shard, **selection: Any) -> list[bytes]:
    return sorted(listing.group_id for listing in listed_groups(shard, **selection))


def test_groups_are_listed_by_prefix_and_from_where_a_page_ended() -> None:
    shard = new_shard()
    for name in ["", "a", "ab", "b", "bc"]:
        answer(shard, commit(name, entry("t", 0, 1)))
    replay(shard, batch_of(shard.offset_next, (group_key("abc"), classic_group())))
    assert listed(shard) == [b"", b"a", b"ab", b"abc", b"b", b"bc"]
    assert listed(shard, prefix=b"a") == [b"a", b"ab", b"abc"]
    assert listed(shard, after=b"") == [b"a", b"ab", b"abc", b"b", b"bc"]
    assert listed(shard, prefix=b"a", after=b"ab") == [b"abc"]


def test_a_simple_group_is_an_empty_classic_one_without_a_protocol_type() -> None:
    shard = new_shard()
    answer(shard, commit("g", entry("t", 0, 1), entry("t", 1, 1)))
    listing = GroupListing(
        group_id=b"g", type=GroupType.CLASSIC, state=GroupState.EMPTY, protocol_type=""
    )
    assert listed_groups(shard) == [listing]
    group = shard.get_group(b"g")
    assert (group.type, group.state, group.offset_count) == (listing.type, listing.state, 2)
    assert (group.members, group.state_timestamp_ms) == ((), -1)


def test_counters_count() -> None:
    shard = new_shard()
    answer(shard, commit("g", entry("t", 0, 1), entry("t", 1, 1)))
    replay(shard, batch_of(2, (group_key("h"), classic_group()), (b"\0\x63", b""), (b"\0\1", b"")))
    counters = shard.counters()
    assert (counters.offset_count, counters.group_count) == (2, 2)
    assert (counters.unknown_records, counters.undecodable_records) == (1, 1)


def test_misplaced_groups_are_named() -> None:
    shard = new_shard(partition=47)
    answer(shard, commit("group", entry("t", 0, 1)))
    answer(shard, commit("my-group", entry("t", 0, 1)))
    assert shard.misplaced_groups() == [b"my-group"]


def test_misplaced_groups_are_not_listed_as_no_other_call_finds_them() -> None:
    shard = replay(
        new_shard(partition=47),
        batch_of(0, (offset_key("my-group"), offset_value(1)), (offset_key("group"), b"")),
        batch_of(2, (group_key("our-group"), classic_group()), (group_key("group"), b"\0\x09")),
    )
    shard.end_load(offset_next=9, leader_epoch=2)
    assert sorted(shard.misplaced_groups()) == [b"my-group", b"our-group"]
    assert listed(shard) == [b"group"]
    answer(shard, commit("sgroup", entry("t", 0, 1)))
    assert listed(shard) == [b"group", b"sgroup"]
    assert (shard.offset_next, shard.leader_epoch) == (10, 2)

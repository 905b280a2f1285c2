"""Deletions, as a shard decides and replays them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import pytest
from offsetd_coordinator.errors import (
    CoordinatorError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidCommitSize,
    NonEmptyGroup,
    RecordUndecodable,
)
from offsetd_coordinator.requests import (
    DeleteGroup,
    DeleteGroupReply,
    DeleteOffsets,
    DeleteOffsetsReply,
)
from offsetd_coordinator.state.offset_table import OffsetTable
from offsetd_storage.batch.record_batch import decode_batch, encode_batch
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.keys import (
    ConsumerGroupKey,
    GroupKey,
    OffsetKey,
    decode_key,
)
from shards import (
    NOW_MS,
    answer,
    ask,
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
    state_of,
)

if TYPE_CHECKING:
    from offsetd_coordinator.requests import Decision
    from offsetd_storage.offsets_topic.schemas.keys import RecordKey

pytestmark = pytest.mark.kernel

TRANSACTIONAL: dict[str, Any] = {"producer_id": 5, "is_transactional": True}
SUBSCRIBED_TO_ORDERS = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
CONSUMER_EPOCH = bytes.fromhex("0000 00000001 00")
CONSUMER_MEMBER = bytes.fromhex("0000 00 00 01 01 02 07") + b"orders" + bytes(7)


def members(protocol_type: str = "consumer") -> tuple[bytes, bytes]:
    member = GroupMember(
        member_id="m",
        client_id="",
        client_host="",
        session_timeout_ms=1,
        subscription=SUBSCRIBED_TO_ORDERS,
        assignment=b"",
    )
    value = GroupMetadataValue(protocol_type=protocol_type, generation=1, members=(member,))
    return group_key("g"), value.encode()


def no_members() -> tuple[bytes, bytes]:
    return group_key("g"), GroupMetadataValue(protocol_type="consumer", generation=1).encode()


def delete(*partitions: tuple[str, int], topics: tuple[str, ...] = (), **more: Any) -> Any:
    return DeleteOffsets(
        group_id=b"g",
        partitions=tuple((topic.encode(), partition) for topic, partition in partitions),
        topics=tuple(topic.encode() for topic in topics),
        **more,
    )


def shard_with_offsets() -> Any:
    shard = new_shard()
    answer(shard, commit("g", *(entry("orders", partition, 1) for partition in range(3))))
    answer(shard, commit("g", entry("payments", 0, 1), entry("clicks", 0, 1)))
    answer(shard, commit("h", entry("orders", 0, 1)))
    return shard


@pytest.mark.parametrize(
    ("request_", "deleted"),
    [
        (delete(("orders", 1)), [("orders", 1)]),
        (delete(("payments", 0), ("orders", 2)), [("orders", 2), ("payments", 0)]),
        (delete(("orders", 1), ("orders", 9), ("nothing", 0)), [("orders", 1)]),
        (delete(topics=("orders",)), [("orders", 0), ("orders", 1), ("orders", 2)]),
        (delete(("orders", 0), topics=("orders", "clicks")),
         [("clicks", 0), ("orders", 0), ("orders", 1), ("orders", 2)]),
    ],
)  # fmt: skip
def test_deleted_offsets_are_gone_and_named_and_the_others_stay(
    request_: DeleteOffsets, deleted: list[tuple[str, int]]
) -> None:
    shard = shard_with_offsets()
    before = offsets_of(shard, "g")
    named = tuple((topic.encode(), partition) for topic, partition in deleted)
    decision = ask(shard, request_)
    assert decision.reply == DeleteOffsetsReply(5 + len(deleted), named)
    assert offsets_of(shard, "g") == {
        key: value for key, value in before.items() if key not in deleted
    }
    assert offsets_of(shard, "h") == {("orders", 0): 1}
    assert decision.batch is not None
    batch = decode_batch(decision.batch)
    assert [record.value for record in batch.records] == [None] * len(deleted)
    assert [decode_key(record.key or b"") for record in batch.records] == [
        OffsetKey(group="g", topic=topic, partition=partition) for topic, partition in deleted
    ]


@pytest.mark.parametrize("group_id", [b"g", b"nobody"])
def test_deleting_what_is_not_there_is_no_error_and_writes_nothing(group_id: bytes) -> None:
    shard = shard_with_offsets()
    request = DeleteOffsets(group_id=group_id, partitions=((b"nothing", 0),), topics=(b"none",))
    decision = shard.decide(request, NOW_MS)
    assert (decision.reply, decision.batch) == (DeleteOffsetsReply(None, ()), None)


def test_a_deletion_that_is_only_validated_answers_and_writes_nothing() -> None:
    shard = shard_with_offsets()
    decision = shard.decide(delete(("orders", 1), validate_only=True), NOW_MS)
    assert decision.reply == DeleteOffsetsReply(None, ((b"orders", 1),))
    assert decision.batch is None
    decision = shard.decide(DeleteGroup(group_id=b"g", validate_only=True), NOW_MS)
    assert (decision.reply, decision.batch) == (DeleteGroupReply(None, 5), None)


@pytest.mark.parametrize(
    ("record", "request_", "refusal"),
    [
        (no_members(), delete(("orders", 0)), None),
        (members(), delete(("orders", 0)), GroupSubscribedToTopic),
        (members(), delete(("payments", 0)), None),
        (members(), delete(("payments", 0), topics=("orders",)), GroupSubscribedToTopic),
        (members("connect"), delete(("payments", 0)), NonEmptyGroup),
        ((group_key("g"), b"\0\x63"), delete(("payments", 0)), RecordUndecodable),
        ((consumer_group_key("g", 5, member_id="m"), CONSUMER_MEMBER),
         delete(("orders", 0)), GroupSubscribedToTopic),
        ((consumer_group_key("g", 5, member_id="m"), CONSUMER_MEMBER),
         delete(("payments", 0)), None),
        (no_members(), DeleteGroup(group_id=b"g"), None),
        (members(), DeleteGroup(group_id=b"g"), NonEmptyGroup),
        (members("connect"), DeleteGroup(group_id=b"g"), NonEmptyGroup),
        ((consumer_group_key("g", 5, member_id="m"), CONSUMER_MEMBER),
         DeleteGroup(group_id=b"g"), NonEmptyGroup),
        ((group_key("g"), b"\0\x63"), DeleteGroup(group_id=b"g"), RecordUndecodable),
        (no_members(), DeleteGroup(group_id=b"nobody"), GroupIdNotFound),
    ],
)  # fmt: skip
def test_a_group_in_use_is_not_deleted_from(
    record: tuple[bytes, bytes], request_: Any, refusal: type[CoordinatorError] | None
) -> None:
    shard = shard_with_offsets()
    replay(shard, batch_of(shard.offset_next, record))
    decision = shard.decide(request_, NOW_MS)
    assert type(decision.refusal) is (refusal or type(None))
    assert (decision.batch is None) == (refusal is not None)


def test_a_simple_group_is_deleted_with_its_offsets_and_kafkas_tombstone_for_it() -> None:
    shard = shard_with_offsets()
    decision = ask(shard, DeleteGroup(group_id=b"g"))
    assert decision.reply == DeleteGroupReply(11, 5)
    assert decision.batch is not None
    keys = [decode_key(record.key or b"") for record in decode_batch(decision.batch).records]
    assert keys[-1] == GroupKey(group="g")
    assert len(keys) == 6
    assert [listing.group_id for listing in listed_groups(shard)] == [b"h"]
    with pytest.raises(GroupIdNotFound):
        answer(shard, DeleteGroup(group_id=b"g"))


def test_a_kip_848_group_is_deleted_with_all_of_its_record_types() -> None:
    left_over = consumer_group_key("g", 7, member_id="gone"), bytes.fromhex("0000 01 00")
    shard = replayed(
        batch_of(0, (consumer_group_key("g", 3), CONSUMER_EPOCH), left_over),
        batch_of(2, (offset_key("g"), offset_value(1))),
    )
    decision = ask(shard, DeleteGroup(group_id=b"g"))
    assert decision.batch is not None
    keys = [decode_key(record.key or b"") for record in decode_batch(decision.batch).records]
    assert [type(key) for key in keys] == [OffsetKey, *3 * [ConsumerGroupKey]]
    assert [key.record_type for key in keys[1:] if isinstance(key, ConsumerGroupKey)] == [7, 6, 3]
    assert not any(state_of(shard).values())


def test_offsets_that_are_only_pending_are_deleted_too() -> None:
    shard = replayed(
        batch_of(0, (offset_key("g", "t", 0), offset_value(1)), **TRANSACTIONAL),
        batch_of(1, (offset_key("g", "t", 1), offset_value(1)), **TRANSACTIONAL),
    )
    assert answer(shard, delete(("t", 0))) == DeleteOffsetsReply(2, ())
    assert answer(shard, DeleteGroup(group_id=b"g")) == DeleteGroupReply(4, 0)
    replay(shard, end_of_transaction(5, 5, commit=True))
    assert not any(state_of(shard).values())


LARGE = 500
"""The bytes of the largest batch in tests of what does not fit one batch."""


def large_group() -> list[bytes]:
    """The log of a group with 60 offsets, more than a batch of tombstones holds, and another."""
    offsets = [
        (offset_key("g", topic, number), offset_value(1))
        for topic in ("clicks", "orders", "payments")
        for number in range(20)
    ]
    others = no_members(), (offset_key("h"), offset_value(1))
    return [batch_of(0, *offsets), batch_of(60, *others)]


def encoded(decision: Decision) -> list[bytes]:
    return [batch for batch, _ in decision.batches]


def keys_in(*batches: bytes) -> list[RecordKey]:
    return [
        decode_key(each.key or b"") for batch in batches for each in decode_batch(batch).records
    ]


LARGE_DELETIONS = [
    delete(topics=("orders", "payments"), request_id=b"one"),
    delete(*(("orders", number) for number in range(25)), topics=("clicks",), request_id=b"one"),
    DeleteGroup(group_id=b"g", request_id=b"one"),
]


@pytest.mark.parametrize("request_id", [b"", b"one"])
def test_a_large_group_is_deleted_in_several_batches_its_own_record_last(request_id: bytes) -> None:
    log = large_group()
    shard = replayed(*log, message_bytes_max=LARGE)
    decision = ask(shard, DeleteGroup(group_id=b"g", request_id=request_id))
    assert decision.reply == DeleteGroupReply(62 + 60, 60)
    assert (decision.batch, decision.last_offset) == (None, 62 + 60)
    batches = encoded(decision)
    assert len(batches) > 2
    assert max(map(len, batches)) <= LARGE
    offset_next = 62
    for each, last_offset in decision.batches:
        batch = decode_batch(each)
        assert (batch.base_offset, batch.last_offset) == (offset_next, last_offset)
        assert [record.offset for record in batch.records] == [*range(offset_next, last_offset + 1)]
        assert {record.timestamp_ms for record in batch.records} == {NOW_MS}
        assert not any(record.value for record in batch.records)
        offset_next = last_offset + 1
    *offsets, last = keys_in(*batches)
    assert last == GroupKey(group="g")
    assert sorted((key.topic, key.partition) for key in offsets if isinstance(key, OffsetKey)) == [
        (topic, number) for topic in ("clicks", "orders", "payments") for number in range(20)
    ]
    assert [each.group_id for each in listed_groups(shard)] == [b"h"]
    assert shard.offset_next == 123
    assert state_of(replayed(*log, *batches)) == state_of(shard)


@pytest.mark.parametrize("request_", LARGE_DELETIONS)
def test_a_deletion_that_a_crash_cut_short_is_not_known_and_can_be_done_again(
    request_: Any,
) -> None:
    log = large_group()
    whole = ask(replayed(*log, message_bytes_max=LARGE), request_)
    batches = encoded(whole)
    for count in range(1, len(batches)):
        restarted = replayed(*log, *batches[:count], message_bytes_max=LARGE)
        assert [each.group_id for each in sorted(listed_groups(restarted))] == [b"g", b"h"]
        rest = ask(restarted, request_)
        written = [rest.batch] if rest.batch else encoded(rest)
        assert keys_in(*batches) == keys_in(*batches[:count], *written)
        assert restarted.decide(request_, NOW_MS).reply == rest.reply
        # The deletion that is remembered is the second, and not what the first had begun.
        again = replayed(*log, *batches[:count], *written)
        assert state_of(again) == state_of(restarted)
        assert again.decide(request_, NOW_MS).reply == rest.reply


@pytest.mark.parametrize("request_", LARGE_DELETIONS)
def test_a_large_deletion_is_answered_again_in_full_also_after_a_replay(request_: Any) -> None:
    log = large_group()
    shard = replayed(*log, message_bytes_max=LARGE)
    decision = ask(shard, request_)
    assert len(decision.batches) > 1
    restarted = replayed(*log, *encoded(decision))
    for each in (shard, restarted):
        again = each.decide(request_, NOW_MS + 60_000)
        assert (again.reply, again.batch, again.batches) == (decision.reply, None, ())


def test_of_a_large_deletion_what_is_left_in_the_log_is_answered_again() -> None:
    log = large_group()
    request = DeleteGroup(group_id=b"g", request_id=b"one")
    batches = encoded(ask(replayed(*log, message_bytes_max=LARGE), request))
    compacted = encode_batch([], base_offset=62, last_offset=decode_batch(batches[0]).last_offset)
    again = replayed(*log, compacted, *batches[1:]).decide(request, NOW_MS)
    count = sum(isinstance(key, OffsetKey) for key in keys_in(*batches[1:]))
    assert again.reply == DeleteGroupReply(122, count)


def test_a_tombstone_that_alone_does_not_fit_a_batch_is_refused() -> None:
    shard = replayed(
        batch_of(0, (offset_key("g", "t" * 500), offset_value(1))), message_bytes_max=LARGE
    )
    assert isinstance(shard.decide(DeleteGroup(group_id=b"g"), NOW_MS).refusal, InvalidCommitSize)


def test_deleting_named_partitions_looks_at_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("looks at the whole group")

    shard = shard_with_offsets()
    for name in ("entries_of", "read_group"):
        monkeypatch.setattr(OffsetTable, name, refuse)
    request = delete(("orders", 1), ("orders", 7), request_id=b"one")
    assert answer(shard, request) == DeleteOffsetsReply(6, ((b"orders", 1),))


@pytest.mark.parametrize(
    ("request_", "after"),
    [
        (delete(("orders", 1), request_id=b"one"), DeleteOffsetsReply(None, ())),
        (DeleteGroup(group_id=b"g", request_id=b"one"), GroupIdNotFound),
    ],
)
def test_what_is_only_validated_is_not_answered_from_memory(request_: Any, after: Any) -> None:
    shard = shard_with_offsets()
    answer(shard, request_)
    decision = shard.decide(attrs.evolve(request_, validate_only=True), NOW_MS)
    assert decision.batch is None
    assert after in (decision.reply, type(decision.refusal))


def test_a_deletion_that_found_nothing_is_not_remembered() -> None:
    shard = shard_with_offsets()
    request = delete(("nothing", 0), request_id=b"one")
    assert answer(shard, request) == DeleteOffsetsReply(None, ())
    answer(shard, commit("g", entry("nothing", 0, 1)))
    assert answer(shard, request) == DeleteOffsetsReply(7, ((b"nothing", 0),))


OTHER_KEYS = [offset_key("g", "t", 0, version=0), offset_key("g", "t", 0) + b"more"]


@pytest.mark.parametrize("other_key", OTHER_KEYS)
@pytest.mark.parametrize("request_", [delete(("t", 0)), DeleteGroup(group_id=b"g")])
def test_a_record_with_another_key_for_its_offset_gets_a_tombstone_too(
    other_key: bytes, request_: Any
) -> None:
    old = batch_of(0, (other_key, offset_value(1)))
    newer = batch_of(1, (offset_key("g", "t", 0), offset_value(2)))
    shard = replayed(old, newer)
    decision = ask(shard, attrs.evolve(request_, request_id=b"one"))
    assert decision.batch is not None
    tombstones = {record.key for record in decode_batch(decision.batch).records}
    assert {other_key, offset_key("g", "t", 0)} <= tombstones
    # Compaction keeps the newest record of each key, and drops tombstones in time.
    kept = [
        batch for batch in (old, newer) if not tombstones & {decode_batch(batch).records[0].key}
    ]
    assert not any(state_of(replayed(*kept)).values())
    assert shard.decide(attrs.evolve(request_, request_id=b"one"), NOW_MS).reply == decision.reply
    # It is gone: nothing is written for it a second time.
    answer(shard, commit("g", entry("t", 0, 3)))
    again = ask(shard, request_)
    assert again.batch is not None
    assert other_key not in {record.key for record in decode_batch(again.batch).records}


def test_a_group_of_which_only_another_key_is_left_can_be_deleted() -> None:
    # So it is after a broker deleted it, and after a crash between two batches of tombstones.
    other_key = OTHER_KEYS[0]
    shard = replayed(
        batch_of(0, (other_key, offset_value(1))), batch_of(1, (offset_key("g", "t", 0), None))
    )
    decision = ask(shard, DeleteGroup(group_id=b"g"))
    assert decision.batch is not None
    assert other_key in {record.key for record in decode_batch(decision.batch).records}
    assert isinstance(shard.decide(DeleteGroup(group_id=b"g"), NOW_MS).refusal, GroupIdNotFound)


@pytest.mark.parametrize(
    "request_",
    [
        delete(("orders", 1), ("orders", 7), request_id=b"one"),
        delete(topics=("payments",), request_id=b"one"),
        DeleteGroup(group_id=b"g", request_id=b"one"),
    ],
)
def test_a_deletion_is_answered_again_by_its_request_id_also_after_a_replay(request_: Any) -> None:
    shard = shard_with_offsets()
    decision = ask(shard, request_)
    answer(shard, commit("g", entry("orders", 1, 5), entry("payments", 0, 5)))
    again = shard.decide(request_, NOW_MS + 60_000)
    assert (again.reply, again.batch) == (decision.reply, None)
    assert shard.decide(request_, NOW_MS + 60_001).batch is not None
    assert decision.batch is not None
    restarted = replay(shard_with_offsets(), decision.batch)
    again = restarted.decide(request_, NOW_MS)
    assert (again.reply, again.batch) == (decision.reply, None)

"""Deletions, as a shard decides and replays them."""

from __future__ import annotations

from typing import Any

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
from offsetd_coordinator.schemas.group_metadata import GroupMember, GroupMetadataValue
from offsetd_coordinator.schemas.keys import ConsumerGroupKey, GroupKey, OffsetKey, decode_key
from offsetd_storage.record_batch import decode_batch
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
    new_shard,
    offset_key,
    offset_value,
    offsets_of,
    replay,
    replayed,
    state_of,
)

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
    assert [listing.group_id for listing in shard.list_groups()] == [b"h"]
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
    assert [type(key) for key in keys] == [OffsetKey, ConsumerGroupKey, ConsumerGroupKey]
    assert [key.record_type for key in keys[1:] if isinstance(key, ConsumerGroupKey)] == [7, 3]
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


def test_tombstones_that_do_not_fit_one_batch_are_refused() -> None:
    shard = new_shard(message_bytes_max=1000)
    for partition in range(50):
        answer(shard, commit("g", entry("orders", partition, 1)))
    refused = shard.decide(DeleteGroup(group_id=b"g"), NOW_MS).refusal
    assert isinstance(refused, InvalidCommitSize)
    assert len(offsets_of(shard, "g")) == 50


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

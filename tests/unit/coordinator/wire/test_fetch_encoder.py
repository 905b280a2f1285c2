"""What the kernels answer to a fetch, against protobuf's bytes of the same values."""

from __future__ import annotations

import pytest
from committed_offsets import committed_offset
from hypothesis import given
from hypothesis import strategies as st
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.errors import RecordUndecodable, ResponseTooLarge
from offsetd_coordinator.expiry.expiry_rules import NO_RULE, GroupRule
from offsetd_coordinator.kernels.columns import BASE_LATEST, BASE_REPLACED, NEVER
from offsetd_coordinator.state.offset_table import OffsetTable, fresh_hash_seeds
from offsetd_coordinator.wire.fetch_encoder import FetchAnswer, GroupEncoder
from offsetd_coordinator.wire.group_selections import PARTITIONS_MAX, GroupSelection
from shards import commit, entry

pytestmark = pytest.mark.kernel

LARGEST = 2**63 - 1
LOG_PARTITION = 300

TOPICS = ["", "a", "ab", "orders", "orders-1", "orders-10", "größe", "группа", "🚀", "t" * 249]
INT32S = [-(2**31), -1, 0, 1, 127, 128, 2**31 - 1]
INT64S = [-(2**63), -1, 0, 1, 127, 128, 2**35, LARGEST]
TIMES = [-(2**63), -1, 0, 1, 999, 1000, 1_700_000_000_123, 253_402_300_799_999, 2**62 - 1, 2**62]

Stored = dict[tuple[str, int], tuple[int, int, str, int, int, int, int]]

stored_offsets = st.dictionaries(
    st.tuples(st.sampled_from(TOPICS), st.sampled_from(INT32S) | st.integers(0, 40)),
    st.tuples(
        st.sampled_from(INT64S) | st.integers(0, 2**40),  # offset
        st.sampled_from(INT32S),  # leader epoch
        st.text(max_size=5) | st.sampled_from(["", "m" * 127, "m" * 128, "é" * 100]),
        st.sampled_from(TIMES),  # commit
        st.sampled_from([-1, -1, *TIMES, NEVER]),  # expire
        st.integers(0, 2**40),  # revision
        st.sampled_from([-1, 0, 1, 2**40, LARGEST - 1]),  # end offset
    ),
    max_size=60,
)
rules = st.builds(
    GroupRule,
    holds_all=st.booleans(),
    retention_ms=st.sampled_from([0, 1, 604_800_000, 315_576_000_000_000, NEVER]),
    empty_ms=st.sampled_from(TIMES).filter(lambda time: time >= -1),
    base=st.sampled_from([BASE_LATEST, BASE_REPLACED]),
    is_subscribed=st.none() | st.sampled_from([lambda topic: topic > "b", lambda _topic: True]),
    may_go=st.booleans(),
)


def new_table() -> OffsetTable:
    return OffsetTable(request_window_ms=0, request_ids_max=1, hash_seeds=fresh_hash_seeds())


def store(table: OffsetTable, group_id: str, stored: Stored) -> None:
    for (topic, partition), value in stored.items():
        offset, leader_epoch, metadata, commit_ms, expire_ms, revision, end_offset = value
        key = group_id.encode(), topic.encode(), partition
        table.store(
            *key,
            revision=revision,
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata.encode(),
            commit_timestamp_ms=commit_ms,
            expire_timestamp_ms=expire_ms,
        )
        if end_offset >= 0:
            reported = entry(topic, partition, 0, end_offset=end_offset)
            table.note_end_offsets(commit(group_id, reported))


def by_protobuf(
    table: OffsetTable, group_id: str, rule: GroupRule, asked: list[tuple[bytes, int]] | None
) -> bytes:
    """The answer as it would be made of Python's values."""
    offsets = [
        committed_offset(each, rule)
        for each in sorted(table.read_group(group_id.encode()))
        if asked is None or (each.topic, each.partition) in asked
    ]
    group = offset_service_pb2.GroupOffsets(
        group_id=group_id, log_partition=LOG_PARTITION, offsets=offsets
    )
    return offset_service_pb2.FetchOffsetsResponse(groups=[group]).SerializeToString()


def by_kernel(table: OffsetTable, selection: GroupSelection, rule: GroupRule = NO_RULE) -> bytes:
    answer = FetchAnswer(GroupEncoder())
    answer.add(table, selection, rule, log_partition=LOG_PARTITION)
    assert answer.size == len(answer.encoded())
    return answer.encoded()


@given(st.sampled_from(["", "g", "größe"]), stored_offsets, stored_offsets, rules, st.data())
def test_the_kernel_writes_the_bytes_that_protobuf_makes(
    group_id: str, stored: Stored, of_another: Stored, rule: GroupRule, data: st.DataObject
) -> None:
    table = new_table()
    store(table, group_id, stored)
    store(table, "orders", of_another)  # A group that has the name of a topic.
    everything = GroupSelection.of(group_id.encode())
    assert by_kernel(table, everything, rule) == by_protobuf(table, group_id, rule, None)
    keys = [(topic.encode(), partition) for topic, partition in {**stored, **of_another}]
    asked = data.draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
    named = GroupSelection.of(group_id.encode(), [*asked, (b"nowhere", 3)])
    assert by_kernel(table, named, rule) == by_protobuf(table, group_id, rule, asked)


@pytest.mark.parametrize("step", [1, -1, 7919])
@pytest.mark.parametrize("count", [0, 1, 2, 3, PARTITIONS_MAX, PARTITIONS_MAX + 1, 10_007])
def test_groups_of_any_size_are_answered_whole_in_whatever_order_they_came(
    count: int, step: int
) -> None:
    table = new_table()
    places = [place * step % count for place in range(count)] if count else []
    for place in places:
        value = (place, 1, "m" * (place % 30), 1_700_000_000_000 + place, -1, place, -1)
        store(table, "g", {(f"topic-{place % 11}", place): value})
    expected = by_protobuf(table, "g", NO_RULE, None)
    assert by_kernel(table, GroupSelection.of(b"g")) == expected
    named = [(b"topic-%d" % (place % 11), place) for place in places]
    assert by_kernel(table, GroupSelection.of(b"g", named)) == expected


def test_a_record_that_cannot_be_read_is_told_by_name_unless_others_are_asked_for() -> None:
    table = new_table()
    value = (5, -1, "", 0, -1, 0, -1)
    store(table, "g", {("orders", 0): value, ("orders", 1): value, ("orders", 2): value})
    table.mark_undecodable(b"g", b"orders", 1, revision=7)
    for selection in (GroupSelection.of(b"g"), GroupSelection.of(b"g", [(b"orders", 1)])):
        with pytest.raises(RecordUndecodable, match="'g' in orders:1 "):
            by_kernel(table, selection)
    others = [(b"orders", 0), (b"orders", 2)]
    expected = offset_service_pb2.FetchOffsetsResponse.FromString(
        by_kernel(table, GroupSelection.of(b"g", others))
    )
    assert [each.partition for each in expected.groups[0].offsets] == [0, 2]


@pytest.mark.parametrize("counts", [[50, 50], [100], [0] * 100, [9000]])
def test_an_answer_of_more_bytes_than_there_may_be_is_refused(counts: list[int]) -> None:
    table = new_table()
    for number, count in enumerate(counts):
        values = {("orders", each): (2**40, -1, "m", 1000, -1, each, -1) for each in range(count)}
        store(table, f"group-{number}", values)

    def answered(bytes_max: int) -> bytes:
        answer = FetchAnswer(GroupEncoder(), bytes_max=bytes_max)
        for number in range(len(counts)):
            selection = GroupSelection.of(f"group-{number}".encode())
            answer.add(table, selection, NO_RULE, log_partition=number)
        return answer.encoded()

    whole = answered(1 << 20)
    response = offset_service_pb2.FetchOffsetsResponse.FromString(whole)
    assert [len(group.offsets) for group in response.groups] == counts
    assert answered(len(whole)) == whole
    with pytest.raises(ResponseTooLarge) as caught:
        answered(len(whole) - 1)
    assert caught.value.variables == {"bytes_max": str(len(whole) - 1)}

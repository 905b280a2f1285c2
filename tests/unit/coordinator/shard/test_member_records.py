"""Members of KIP-848 go with the records that a broker writes for it, and a group changes type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from offsetd_coordinator.membership.member_requests import Moment
from offsetd_coordinator.membership.refusals import GroupRecordTooLarge
from offsetd_coordinator.requests import (
    DeleteGroup,
    EndConsumerMembers,
    EndConsumerMembersReply,
    WriteGroup,
)
from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.offsets_topic.group_listing import GroupState, GroupType
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from partition_logs import GOLDEN
from shards import NOW_MS, commit, entry, new_shard, replay

if TYPE_CHECKING:
    from offsetd_coordinator.shard.shard import Shard

GROUP = "modern-workers"
FIRST, SECOND = "vdwf9ATiRMKmF3qQYRimTA", "1lx80TjDTpu+C5uppyml2A"
NOW = Moment(NOW_MS, 0)


def golden_batches() -> list[bytes]:
    """Of the partition in which a broker had a group of KIP-848, from two members to none."""
    folder = GOLDEN / f"__consumer_offsets-{partition_of(GROUP, 50)}"
    content = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    batches = []
    while content:
        size = 12 + int.from_bytes(content[8:12])
        batches.append(content[:size])
        content = content[size:]
    return batches


def shard_before(offset: int, **config: object) -> tuple[Shard, bytes]:
    """A shard with the batches before one, and that one."""
    batches = golden_batches()
    [place] = [at for at, each in enumerate(batches) if int.from_bytes(each[:8]) == offset]
    return replay(new_shard(**config), *batches[:place]), batches[place]


def records_of(batch: bytes | None) -> list[tuple[bytes | None, bytes | None]]:
    assert batch is not None
    return [(each.key, each.value) for each in decode_batch(batch).records]


def end(shard: Shard, *member_ids: str) -> EndConsumerMembersReply:
    request = EndConsumerMembers(group_id=GROUP.encode(), member_ids=member_ids)
    decision = shard.decide(request, NOW_MS)
    assert isinstance(decision.reply, EndConsumerMembersReply)
    shard.apply(decision)
    return decision.reply


def test_the_last_member_goes_with_the_records_of_a_broker() -> None:
    shard, written = shard_before(81)
    request = EndConsumerMembers(group_id=GROUP.encode(), member_ids=(SECOND,))
    decision = shard.decide(request, NOW_MS)
    assert records_of(decision.batch) == records_of(written)
    shard.apply(decision)
    group = shard.get_group(GROUP.encode())
    assert (group.state, group.generation) == (GroupState.EMPTY, 4)


def test_of_two_members_each_goes_by_itself() -> None:
    shard, written = shard_before(74)
    request = EndConsumerMembers(group_id=GROUP.encode(), member_ids=(FIRST,))
    decision = shard.decide(request, NOW_MS)
    # A broker also looks at the topics of those who stay, and writes a new hash of them.
    assert records_of(decision.batch)[:-1] == records_of(written)[:-1]
    assert records_of(decision.batch)[-1][0] == records_of(written)[-1][0]


def test_sessions_end_and_then_the_group_is_like_any_other() -> None:
    shard, _ = shard_before(74)
    group_id = GROUP.encode()
    refused = shard.decide(commit(GROUP, entry("orders", 1, 7)), NOW_MS).refusal
    assert refused is not None
    assert refused.reason == "UNKNOWN_MEMBER_ID"
    shard.restore_members(NOW)
    assert not list(shard.membership.expire(NOW._replace(monotonic_ms=44_999)))
    [step] = shard.membership.expire(NOW._replace(monotonic_ms=45_000))
    assert set(step.ended_consumer_ids) == {FIRST, SECOND}
    assert end(shard, *step.ended_consumer_ids).last_offset == 74 + 2 * 3
    assert end(shard, *step.ended_consumer_ids).last_offset is None
    assert shard.get_group(group_id).state is GroupState.EMPTY
    committed = shard.decide(commit(GROUP, entry("orders", 1, 7)), NOW_MS)
    assert committed.refusal is None
    deleted = shard.decide(DeleteGroup(group_id=group_id), NOW_MS)
    assert deleted.refusal is None


def test_the_first_classic_record_takes_those_of_kip_848_away() -> None:
    shard, _ = shard_before(74)
    end(shard, FIRST, SECOND)
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol=None,
        leader=None,
        current_state_timestamp_ms=NOW_MS,
        members=(),
    )
    before = shard.offset_count
    shard.apply(shard.decide(WriteGroup(group_id=GROUP.encode(), value=value), NOW_MS))
    group = shard.get_group(GROUP.encode())
    assert (group.type, group.generation) == (GroupType.CLASSIC, 1)
    assert shard.offset_count == before
    second = shard.decide(
        WriteGroup(group_id=GROUP.encode(), value=attrs.evolve(value, generation=2)), NOW_MS
    )
    assert len(records_of(second.batch)) == 1


def test_what_does_not_fit_one_batch_is_written_in_several() -> None:
    shard, _ = shard_before(74)
    whole = shard.decide(EndConsumerMembers(group_id=GROUP.encode(), member_ids=(FIRST, SECOND)), 0)
    assert whole.batch is not None
    small, _ = shard_before(74, message_bytes_max=len(whole.batch) - 1)
    request = EndConsumerMembers(group_id=GROUP.encode(), member_ids=(FIRST, SECOND))
    decision = small.decide(request, 0)
    assert [record for batch, _ in decision.batches for record in records_of(batch)] == records_of(
        whole.batch
    )
    small.apply(decision)
    assert small.get_group(GROUP.encode()).state is GroupState.EMPTY
    tiny, _ = shard_before(74, message_bytes_max=80)
    assert isinstance(tiny.decide(request, 0).refusal, GroupRecordTooLarge)

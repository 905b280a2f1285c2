"""Deletions remembered by request id."""

from __future__ import annotations

from typing import Any

import pytest
from offsetd_coordinator.requests import DeleteGroupReply, DeleteOffsetsReply
from offsetd_coordinator.state.deletion_dedup import (
    DeletedBatch,
    DeletionReply,
    KnownDeletions,
    PackedPartitions,
)

WINDOW_MS = 60_000


def new_deletions(**bounds: int) -> KnownDeletions:
    return KnownDeletions(
        window_ms=WINDOW_MS, **{"count_max": 10, "bytes_max": 1_000_000, **bounds}
    )


def batch(request_id: bytes, last_offset: int, *partitions: int, **more: Any) -> DeletedBatch:
    """A batch that took partitions of one topic away."""
    fields: dict[str, Any] = {
        "group_id": b"g",
        "request_id": request_id,
        "starts_at": None,
        "base_offset": last_offset,
        "last_offset": last_offset,
        "timestamp_ms": 1000,
        "has_group": False,
        "deleted": PackedPartitions.of([(b"t", partitions)]),
    }
    return DeletedBatch(**{**fields, **more})


def part(request_id: bytes, offset: int, partition: int, starts_at: int) -> DeletedBatch:
    """One of several batches, of a single tombstone."""
    return batch(request_id, offset, partition, starts_at=starts_at)


def find(
    deletions: KnownDeletions, group_id: bytes, request_id: bytes, now_ms: int = 1000
) -> DeletionReply | None:
    found = deletions.find(DeleteOffsetsReply, group_id, request_id, now_ms)
    if isinstance(found, DeleteOffsetsReply):
        assert len(found.deleted) == len(tuple(found.deleted))
        return found._replace(deleted=tuple(found.deleted))
    return found


def reply(last_offset: int, *partitions: int) -> DeleteOffsetsReply:
    return DeleteOffsetsReply(last_offset, tuple((b"t", each) for each in partitions))


@pytest.mark.parametrize(("now_ms", "known"), [(1000, True), (61_000, True), (61_001, False)])
def test_a_reply_is_known_within_the_window(now_ms: int, known: bool) -> None:
    deletions = new_deletions()
    deletions.note(batch(b"1", 4, 7, 8))
    assert find(deletions, b"g", b"1", now_ms) == (reply(4, 7, 8) if known else None)


def test_ids_belong_to_their_group() -> None:
    deletions = new_deletions()
    deletions.note(batch(b"1", 4))
    assert find(deletions, b"h", b"1") is None
    assert find(deletions, b"g", b"") is None


def test_ids_belong_to_their_kind_of_request() -> None:
    deletions = new_deletions()
    deletions.note(batch(b"1", 4))
    assert deletions.find(DeleteGroupReply, b"g", b"1", 1000) is None
    deletions.note(batch(b"1", 5, 1, 2, has_group=True))
    assert find(deletions, b"g", b"1") == reply(4)
    assert deletions.find(DeleteGroupReply, b"g", b"1", 1000) == DeleteGroupReply(5, 2)


def test_the_batches_of_a_deletion_are_answered_as_one_once_the_last_is_there() -> None:
    deletions = new_deletions()
    deletions.note(part(b"", 4, 7, starts_at=4))
    deletions.note(part(b"", 5, 8, starts_at=4))
    assert find(deletions, b"g", b"1") is None
    deletions.note(part(b"1", 6, 9, starts_at=4))
    assert find(deletions, b"g", b"1") == reply(6, 7, 8, 9)


def test_batches_of_others_may_lie_between_those_of_a_deletion() -> None:
    deletions = new_deletions()
    deletions.note(part(b"", 4, 7, starts_at=4))
    deletions.note(batch(b"2", 5, 1))
    deletions.note(part(b"", 6, 2, starts_at=6))
    deletions.note(part(b"1", 7, 9, starts_at=4))
    deletions.note(part(b"3", 8, 3, starts_at=6))
    assert find(deletions, b"g", b"1") == reply(7, 7, 9)
    assert find(deletions, b"g", b"2") == reply(5, 1)
    assert find(deletions, b"g", b"3") == reply(8, 2, 3)


def test_what_crashes_cut_off_is_not_kept_for_ever() -> None:
    deletions = new_deletions()
    for start in range(0, 200, 2):
        deletions.note(part(b"", start, 7, starts_at=start))
    assert len(deletions._begun) <= 16


@pytest.mark.parametrize(
    "last",
    [
        batch(b"1", 5, 9),
        part(b"1", 5, 9, starts_at=5),
        part(b"1", 5, 9, starts_at=3),
    ],
    ids=["one batch", "another deletion", "its start is missing"],
)
def test_what_a_deletion_that_was_cut_short_took_is_not_counted_to_another(
    last: DeletedBatch,
) -> None:
    deletions = new_deletions()
    deletions.note(part(b"", 4, 7, starts_at=4))
    deletions.note(last)
    assert find(deletions, b"g", b"1") == reply(last.last_offset, 9)


def test_the_oldest_make_way_when_there_are_too_many() -> None:
    deletions = new_deletions(count_max=2)
    for number in range(3):
        deletions.note(batch(b"%d" % number, number))
    assert find(deletions, b"g", b"0") is None
    assert find(deletions, b"g", b"1") == reply(1)
    assert find(deletions, b"g", b"2") == reply(2)


def test_an_id_used_again_is_not_the_oldest() -> None:
    deletions = new_deletions(count_max=2)
    for request_id, last_offset in ((b"1", 1), (b"2", 2), (b"1", 3), (b"3", 4)):
        deletions.note(batch(request_id, last_offset))
    assert find(deletions, b"g", b"1") == reply(3)
    assert find(deletions, b"g", b"2") is None


def test_the_oldest_make_way_when_the_partitions_they_name_are_too_many() -> None:
    deletions = new_deletions(bytes_max=100_000)
    for number in range(3):
        deletions.note(batch(b"%d" % number, number, *range(10_000)))
    assert [find(deletions, b"g", b"%d" % number) is None for number in range(3)] == [
        True,
        False,
        False,
    ]
    deletions.note(batch(b"large", 4, *range(25_000)))
    assert find(deletions, b"g", b"large") is None, "larger than all may be together"
    assert find(deletions, b"g", b"2") == reply(2, *range(10_000))


def test_a_partition_of_each_of_thousands_of_topics_takes_little_more_than_the_names() -> None:
    deletions = new_deletions(bytes_max=100_000)
    packed = PackedPartitions.of((b"topic-%d" % number, (3,)) for number in range(4000))
    deletions.note(batch(b"1", 4, deleted=packed))
    known = find(deletions, b"g", b"1")
    assert known == DeleteOffsetsReply(4, tuple((b"topic-%d" % each, 3) for each in range(4000)))


def test_a_group_that_is_deleted_takes_no_room_for_its_partitions_in_any_batch() -> None:
    deletions = new_deletions(bytes_max=2000)
    deletions.note(batch(b"", 3, *range(25_000), starts_at=3))
    deletions.note(batch(b"1", 4, *range(25_000), starts_at=3, has_group=True))
    assert deletions.find(DeleteGroupReply, b"g", b"1", 1000) == DeleteGroupReply(4, 50_000)


def test_long_group_ids_take_room_too() -> None:
    deletions = new_deletions(bytes_max=50_000)
    for number in range(3):
        deletions.note(batch(b"1", number, group_id=b"%d" % number * 20_000, has_group=True))
    assert len(deletions._known) == 2


def test_what_is_out_of_the_window_takes_no_room() -> None:
    deletions = new_deletions()
    deletions.note(batch(b"1", 1))
    deletions.note(batch(b"2", 2, timestamp_ms=1000 + WINDOW_MS + 1))
    assert len(deletions._known) == 1

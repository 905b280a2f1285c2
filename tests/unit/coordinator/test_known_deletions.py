"""Deletions remembered by request id."""

from __future__ import annotations

import pytest
from offsetd_coordinator.known_deletions import DeletionReply, KnownDeletions
from offsetd_coordinator.requests import DeleteGroupReply, DeleteOffsetsReply

WINDOW_MS = 60_000


def find(
    deletions: KnownDeletions, group_id: bytes, request_id: bytes, now_ms: int
) -> DeletionReply | None:
    return deletions.find(DeleteOffsetsReply, group_id, request_id, now_ms)


def reply(last_offset: int) -> DeleteOffsetsReply:
    return DeleteOffsetsReply(last_offset, ())


@pytest.mark.parametrize(("now_ms", "known"), [(1000, True), (61_000, True), (61_001, False)])
def test_a_reply_is_known_within_the_window(now_ms: int, known: bool) -> None:
    deletions = KnownDeletions(window_ms=WINDOW_MS, count_max=10)
    deletions.remember(b"g", b"1", reply(4), 1000)
    assert find(deletions, b"g", b"1", now_ms) == (reply(4) if known else None)


def test_ids_belong_to_their_group() -> None:
    deletions = KnownDeletions(window_ms=WINDOW_MS, count_max=10)
    deletions.remember(b"g", b"1", reply(4), 1000)
    assert find(deletions, b"h", b"1", 1000) is None
    assert find(deletions, b"g", b"", 1000) is None


def test_ids_belong_to_their_kind_of_request() -> None:
    deletions = KnownDeletions(window_ms=WINDOW_MS, count_max=10)
    deletions.remember(b"g", b"1", reply(4), 1000)
    assert deletions.find(DeleteGroupReply, b"g", b"1", 1000) is None
    deletions.remember(b"g", b"1", DeleteGroupReply(5, 0), 1000)
    assert find(deletions, b"g", b"1", 1000) == reply(4)


def test_the_oldest_make_way_when_there_are_too_many() -> None:
    deletions = KnownDeletions(window_ms=WINDOW_MS, count_max=2)
    for number in range(3):
        deletions.remember(b"g", b"%d" % number, reply(number), 1000)
    assert find(deletions, b"g", b"0", 1000) is None
    assert find(deletions, b"g", b"1", 1000) == reply(1)
    assert find(deletions, b"g", b"2", 1000) == reply(2)


def test_what_is_out_of_the_window_takes_no_room() -> None:
    deletions = KnownDeletions(window_ms=WINDOW_MS, count_max=10)
    deletions.remember(b"g", b"1", reply(1), 1000)
    deletions.remember(b"g", b"2", reply(2), 1000 + WINDOW_MS + 1)
    assert len(deletions._known) == 1

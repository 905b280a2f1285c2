"""The frame that is being filled, and the thread that takes it."""

from __future__ import annotations

import itertools
import threading
from random import Random
from typing import TYPE_CHECKING

import attrs
from chance import seed_of
from log_stores import P0, P1
from offsetd_coordinator.cluster import frames as frames_module
from offsetd_coordinator.cluster.claims import Claim
from offsetd_coordinator.cluster.frames import Frame, OpenFrame
from offsetd_storage.topic_partition import TopicPartition
from patience import PATIENCE_SECONDS
from server_process import poll

if TYPE_CHECKING:
    import pytest

CLAIM = Claim(epoch=1, node_id="n1", address="a:1", producers=1, first_offset=0)
OWN = TopicPartition("__offsetd_audit", 0)


def add(frames: OpenFrame, where: TopicPartition = P0, *, is_own: bool = False) -> int:
    return frames.add(where, b"batch", last_offset=0, max_timestamp_ms=0, is_own=is_own)


def taken(frames: OpenFrame) -> Frame:
    """The frame that is open. One without work counts as idle at once."""
    frame = frames.take(idle_seconds=0)
    assert frame is not None
    return frame


def test_a_frame_has_what_was_added_in_order_and_the_newest_ticket() -> None:
    frames = OpenFrame()
    tickets = [add(frames), add(frames, OWN, is_own=True), add(frames, P1), frames.next_ticket()]
    assert tickets == [1, 2, 3, 4]
    frame = taken(frames)
    assert [each.ticket for each in frame.entries] == [1, 3]
    assert [each.ticket for each in frame.internal_entries] == [2]
    assert (frame.number, frame.ticket) == (1, 4)
    assert add(frames) == 5
    later = taken(frames)
    assert (later.number, later.ticket, len(later.entries)) == (2, 5, 1)


def test_who_wants_a_frame_gets_the_number_of_one_that_was_not_taken_yet() -> None:
    frames = OpenFrame()
    add(frames)
    assert frames.want() == 1
    taken(frames)
    number = frames.want()
    assert number == 2
    frames.kick()
    frame = frames.take(idle_seconds=PATIENCE_SECONDS)
    assert frame is not None
    assert (frame.number, frame.is_wanted, frame.entries) == (number, True, [])


def test_the_last_claim_of_a_partition_is_in_the_frame_and_wakes_the_thread() -> None:
    frames = OpenFrame()
    later = attrs.evolve(CLAIM, epoch=2)
    assert frames.claim({0: CLAIM, 1: CLAIM}) == frames.claim({0: later}) == 1
    frame = frames.take(idle_seconds=PATIENCE_SECONDS)
    assert frame is not None
    assert frame.claims == {0: later, 1: CLAIM}


def test_without_work_an_empty_frame_comes_after_a_while() -> None:
    frames = OpenFrame()
    frame = frames.take(idle_seconds=0.01)
    assert frame is not None
    assert (frame.entries, frame.claims, frame.is_wanted) == ([], {}, True)


def test_what_was_added_before_the_end_is_taken_and_then_nothing() -> None:
    frames = OpenFrame()
    ticket = add(frames)
    frames.close()
    frame = frames.take(idle_seconds=PATIENCE_SECONDS)
    assert frame is not None
    assert frame.ticket == ticket
    assert frames.take(idle_seconds=PATIENCE_SECONDS) is None


def test_two_threads_lose_nothing_and_tickets_rise_over_all_frames() -> None:
    frames, random = OpenFrame(), Random(seed_of())
    taken_frames: list[Frame] = []
    wanted: list[int] = []

    def take_all() -> None:
        while (frame := frames.take(idle_seconds=PATIENCE_SECONDS)) is not None:
            taken_frames.append(frame)

    thread = threading.Thread(target=take_all)
    thread.start()
    count = 3000
    for number in range(count):
        assert add(frames, random.choice((P0, P1))) == number + 1
        if random.random() < 0.2:
            frames.kick()
        if random.random() < 0.1:
            wanted.append(frames.want())
        if random.random() < 0.1:
            frames.claim({number: CLAIM})
    frames.close()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    tickets = [entry.ticket for frame in taken_frames for entry in frame.entries]
    assert tickets == list(range(1, count + 1))
    assert [each.number for each in taken_frames] == list(range(1, len(taken_frames) + 1))
    for before, frame in itertools.pairwise(taken_frames):
        assert all(before.ticket < each.ticket <= frame.ticket for each in frame.entries)
    assert {each.number for each in taken_frames if each.is_wanted} == set(wanted)


def test_what_was_added_before_a_partition_was_dropped_is_known_and_nothing_else() -> None:
    frames = OpenFrame()
    add(frames)
    add(frames, P1)
    frames.drop([0])
    add(frames)
    assert [frames.is_dropped(each) for each in taken(frames).entries] == [True, False, False]


class Taking:
    """A thread that takes one frame."""

    def __init__(self, frames: OpenFrame) -> None:
        self.frames: list[Frame | None] = []
        self._from = frames
        self.thread = threading.Thread(target=self._take)
        self.thread.start()

    def _take(self) -> None:
        self.frames.append(self._from.take(idle_seconds=PATIENCE_SECONDS))

    def wait_until_it_gathers(self) -> None:
        poll(lambda: self._from.is_gathering or not self.thread.is_alive(), PATIENCE_SECONDS)

    def ended(self) -> Frame:
        self.thread.join(PATIENCE_SECONDS)
        [frame] = self.frames
        assert frame is not None
        return frame


def after_two_callers(monkeypatch: pytest.MonkeyPatch, *, wait_s: float) -> OpenFrame:
    """A frame with two commits was taken, and one came since. Two more are expected."""
    monkeypatch.setattr(frames_module, "_GATHER_SECONDS_MAX", wait_s)
    monkeypatch.setattr(frames_module, "_GATHER_SHARE", 1e9)
    frames = OpenFrame()
    add(frames)
    add(frames)
    assert len(taken(frames).entries) == 2
    add(frames)
    frames.kick()
    return frames


def test_a_frame_waits_for_callers_of_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = after_two_callers(monkeypatch, wait_s=PATIENCE_SECONDS)
    taking = Taking(frames)
    for _ in range(2):
        taking.wait_until_it_gathers()
        add(frames)
        frames.kick()
    assert len(taking.ended().entries) == 3
    assert not frames.is_gathering


def test_a_frame_with_a_claim_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = after_two_callers(monkeypatch, wait_s=PATIENCE_SECONDS)
    taking = Taking(frames)
    taking.wait_until_it_gathers()
    frames.claim({0: CLAIM})
    assert (len(taking.ended().entries), taking.ended().claims) == (1, {0: CLAIM})


def test_callers_that_do_not_come_back_are_expected_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames = after_two_callers(monkeypatch, wait_s=0.01)
    assert len(taken(frames).entries) == 1
    for _ in range(8):
        add(frames)
        frames.kick()
        assert len(taken(frames).entries) == 1
    assert frames.expected <= 2  # The one, and the one that came before its frame was taken.


def test_the_end_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = after_two_callers(monkeypatch, wait_s=PATIENCE_SECONDS)
    taking = Taking(frames)
    taking.wait_until_it_gathers()
    frames.close()
    assert len(taking.ended().entries) == 1

"""Requests, answers and messages that are not whole share one bound."""

from __future__ import annotations

import asyncio

import pytest
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.errors import TooManyBytesInFlight


def test_messages_that_are_not_whole_leave_less_room_for_requests() -> None:
    admission = Admission(1000)
    admission.take(100)
    admission.note_unended(250)
    with pytest.raises(TooManyBytesInFlight):
        admission.take(651)
    admission.take(650)
    assert not admission.has_room_beside(1)
    admission.give_back(650)
    assert admission.has_room_beside(650)
    assert not admission.has_room_beside(651)


async def test_a_stream_that_waits_goes_on_when_a_message_is_whole() -> None:
    admission = Admission(1000)
    admission.take(100)
    admission.note_unended(250)
    waiting = asyncio.create_task(admission.take_in_turn(700))
    await asyncio.sleep(0)
    assert not waiting.done()
    admission.note_unended(0)
    await waiting
    assert admission.bytes_taken == 800

"""The time in which a loop ran: pauses are left out, and it never goes back."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from offsetd_coordinator.runtime.awake_clock import PAUSE_MS_MAX, PULSE_MS, AwakeClock
from offsetd_storage.clock import ManualClock
from offsetd_storage.offsets_topic.group_listing import GroupState
from serving_members import Members
from serving_nodes import serving_node

if TYPE_CHECKING:
    from collections.abc import Callable


class Pulses(asyncio.SelectorEventLoop):
    """A loop whose next call a test makes."""

    def __init__(self) -> None:
        super().__init__()
        self.next: Callable[[], object] = lambda: None

    def call_later(self, delay: float, callback: Callable[..., Any], *_: Any, **__: Any) -> Any:
        """Keeps what is to be called."""
        assert delay == PULSE_MS / 1000
        self.next = callback


def awake(clock: ManualClock) -> tuple[AwakeClock, Pulses]:
    loop = Pulses()
    loop.close()
    return AwakeClock(clock, loop), loop


def run(clock: ManualClock, loop: Pulses, milliseconds: int) -> None:
    """The loop runs for a while."""
    for _ in range(milliseconds // PULSE_MS):
        clock.advance(PULSE_MS)
        loop.next()


def test_time_goes_on_while_the_loop_runs_also_if_it_is_somewhat_late() -> None:
    clock = ManualClock()
    time, loop = awake(clock)
    run(clock, loop, 60_000)
    clock.advance(PAUSE_MS_MAX)
    assert time.monotonic_ms() == clock.monotonic_ms() == 60_000 + PAUSE_MS_MAX


def test_a_pause_is_left_out_whoever_asks_first_and_wall_time_is_not_changed() -> None:
    for asks_first in (True, False):
        clock = ManualClock()
        time, loop = awake(clock)
        run(clock, loop, 2000)
        clock.advance(PAUSE_MS_MAX)
        before = time.monotonic_ms()
        clock.advance(3_600_000)
        if not asks_first:
            loop.next()
        assert time.monotonic_ms() == before
        run(clock, loop, 5000)
        assert time.monotonic_ms() == before + 5000
        assert time.now_ms() == clock.now_ms()


def test_another_thread_notes_no_pause() -> None:
    clock = ManualClock()
    time, _ = awake(clock)
    clock.advance(10_000)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(time.monotonic_ms()))
    thread.start()
    thread.join()
    assert seen == [10_000]
    assert time.monotonic_ms() == PAUSE_MS_MAX


async def test_members_outlive_a_pause_of_their_server_and_end_by_its_own_time() -> None:
    async with serving_node() as serving:
        clock = serving.clock
        time, loop = awake(clock)
        serving.runtime._clock = time
        members = Members(serving)
        calls = serving.node.members

        def pass_by(milliseconds: int) -> None:
            run(clock, loop, milliseconds)
            calls.expire()

        member_id, joining = await members.come_in()
        pass_by(3000)
        await joining
        await members.sync(member_id, 1)
        members.advance(60_000)  # Paused: sessions are of 10 s.
        assert members.state() is GroupState.STABLE
        assert await members.heartbeat(member_id, 1) == ""
        pass_by(9500)
        assert members.state() is GroupState.STABLE
        pass_by(500)
        assert members.state() is None

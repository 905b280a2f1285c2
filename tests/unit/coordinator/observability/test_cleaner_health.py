"""When the cleaner counts as one that works."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import pytest
import structlog
from offsetd_coordinator.observability.cleaner_health import CleanerWatch, why_not_cleaning
from offsetd_storage.cleaner.cleaner_status import CleanerStatus, CleanerThreadStatus, LastLook
from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.server_config import CleanerConfig
from offsetd_storage.tasks.supervision import RunStatus
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STALL_MS = 120_000
BACKOFF_MS = 15_000
WAIT_SECONDS = 60
LOG = TopicPartition("__consumer_offsets", 3)
THREAD = CleanerThreadStatus(
    run=RunStatus(
        name="kafka-log-cleaner-thread-0",
        is_running=False,
        runs=7,
        failures=1,
        failures_in_row=0,
        last_started_ms=0,
        last_duration_ms=1,
        last_succeeded_ms=1,
        last_failed_ms=0,
        last_error="MemoryError: ",
    ),
    is_alive=True,
    replaced=0,
    cleans=None,
    last_progress_ms=0,
    last=None,
)
STATUS = CleanerStatus(
    is_enabled=True,
    threads=(THREAD,),
    last_look=LastLook(at_ms=0, max_dirty_ratio=0.9, max_overdue_ms=5000),
    uncleanable=(
        UncleanablePartition(
            topic_partition=LOG,
            reason="CorruptBatch",
            is_damaged=True,
            failures_in_row=9,
            since_ms=0,
            last_ms=0,
            retry_in_ms=1,
        ),
    ),
)


@pytest.mark.parametrize(
    ("status", "monotonic_ms", "told"),
    [
        (STATUS, BACKOFF_MS, None),
        (STATUS, STALL_MS + BACKOFF_MS, None),
        (STATUS, STALL_MS + BACKOFF_MS + 1, "thread 0 has not looked for work for 135001 ms"),
        ({"cleans": LOG}, STALL_MS, None),
        ({"cleans": LOG}, STALL_MS + 1, "thread 0 has made no progress with __consumer_offsets-3"),
        ({"cleans": LOG, "last_progress_ms": 100_000}, STALL_MS + 1, None),
        ({"is_alive": False}, 0, "thread 0 is dead or keeps failing: MemoryError"),
        (attrs.evolve(STATUS, threads=()), 2**40, None),
        (attrs.evolve(STATUS, is_enabled=False, threads=()), 0, "log.cleaner.enable is false"),
    ],
)
def test_a_cleaner_works_while_its_threads_make_progress(
    status: CleanerStatus | dict[str, object], monotonic_ms: int, told: str | None
) -> None:
    if isinstance(status, dict):
        status = attrs.evolve(STATUS, threads=(attrs.evolve(THREAD, **status),))
    found = why_not_cleaning(
        status, monotonic_ms=monotonic_ms, stall_ms=STALL_MS, backoff_ms=BACKOFF_MS
    )
    assert (found is None) if told is None else (found is not None and told in found)


def test_one_thread_of_several_that_stands_still_is_enough() -> None:
    other = attrs.evolve(THREAD, cleans=LOG)
    moving = attrs.evolve(THREAD, last_progress_ms=STALL_MS)
    found = why_not_cleaning(
        attrs.evolve(STATUS, threads=(moving, other)),
        monotonic_ms=STALL_MS + 1,
        stall_ms=STALL_MS,
        backoff_ms=BACKOFF_MS,
    )
    assert found is not None
    assert "thread 1" in found


class FakeCleaner:
    """Says what it is told to; hangs while it is `held`."""

    def __init__(self) -> None:
        self.config = CleanerConfig()
        self.now = STATUS
        self.free = threading.Event()
        self.free.set()

    @property
    def status(self) -> CleanerStatus:
        self.free.wait(WAIT_SECONDS)
        return self.now


@asynccontextmanager
async def watched(
    cleaner: FakeCleaner, told: asyncio.Queue[bool], *, stall_ms: int = STALL_MS
) -> AsyncIterator[None]:
    watch = CleanerWatch(cleaner, told.put, clock=ManualClock(), stall_ms=stall_ms)
    task = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        cleaner.free.set()
        task.cancel()


async def next_of(told: asyncio.Queue[bool]) -> bool:
    return await asyncio.wait_for(told.get(), WAIT_SECONDS)


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetd_coordinator.observability.cleaner_health._LOOK_SECONDS", 0.001)


async def test_each_change_is_told_once_and_logged() -> None:
    cleaner, told = FakeCleaner(), asyncio.Queue[bool]()
    with structlog.testing.capture_logs() as events:
        async with watched(cleaner, told):
            assert await next_of(told) is True
            dead = attrs.evolve(THREAD, is_alive=False)
            cleaner.now = attrs.evolve(STATUS, threads=(dead,))
            assert await next_of(told) is False
            cleaner.now = STATUS
            assert await next_of(told) is True
            await asyncio.sleep(0.05)
            assert told.empty()
    assert [event["event"] for event in events] == [
        "the cleaner does not work",
        "the cleaner works again",
    ]
    assert "MemoryError" in events[0]["reason"]


async def test_a_cleaner_that_does_not_answer_does_not_work() -> None:
    cleaner, told = FakeCleaner(), asyncio.Queue[bool]()
    cleaner.free.clear()
    async with watched(cleaner, told, stall_ms=50):
        assert await next_of(told) is False
        cleaner.free.set()
        assert await next_of(told) is True


def test_a_thread_that_was_replaced_is_logged_once() -> None:
    cleaner = FakeCleaner()

    async def tell(_: bool) -> None:
        raise AssertionError("nothing to tell")

    watch = CleanerWatch(cleaner, tell, clock=ManualClock(), stall_ms=STALL_MS)
    replaced = attrs.evolve(THREAD, replaced=1)
    with structlog.testing.capture_logs() as events:
        watch.look()
        cleaner.now = attrs.evolve(STATUS, threads=(replaced,))
        watch.look()
        watch.look()
        cleaner.now = STATUS  # Other settings: new threads.
        watch.look()
        cleaner.now = attrs.evolve(STATUS, threads=(replaced,))
        watch.look()
    assert [event["event"] for event in events] == [
        "a thread of the cleaner died and was replaced"
    ] * 2
    assert events[0]["errors"] == ["MemoryError: "]

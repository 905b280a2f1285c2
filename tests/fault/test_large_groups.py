"""No call on a large group holds up everybody else: each call of the contract is tried.

The server counts, ten times a second, how much processor time its event loop used while it was
late. A call that deals with a whole group in one turn uses much, each time; a busy machine does
not. So a call fails this test only if the loop was held for too long at each of several tries.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import pytest
from large_calls import CHANNEL_OPTIONS, LARGE_CALLS, METHODS, LargeGroups
from scrapes import Scrape
from server_process import ServerProcess, Stubs, poll
from serving_nodes import commit_request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.long(minutes=2)

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
OFFSETS = 1_000_000 if NIGHTLY else 200_000
HOLD_SECONDS_MAX = 0.1
"""A bound of the metric's buckets. The metric leaves out a tenth of a second, so that holds of less
than 0.2 s are not seen; unit tests count the rows of each turn.
"""
TRIES = 3
WAIT_SECONDS = 600
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "history.ms": None,
}
_HOLDS = "offsetd_event_loop_hold_seconds"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("server")
    with ServerProcess(folder, settings=SETTINGS) as process:
        yield process.wait_until_serving()


@pytest.fixture(scope="module")
def large(server: ServerProcess) -> Iterator[LargeGroups]:
    with server.channel(**CHANNEL_OPTIONS) as channel:
        filled = LargeGroups(channel, OFFSETS)
        filled.fill()
        yield filled


@contextlib.contextmanager
def commits_beside(server: ServerProcess) -> Iterator[None]:
    """Another client commits to another group meanwhile. Fails if one of its commits does."""
    ends = threading.Event()
    failures: list[Exception] = []

    def commit() -> None:
        with server.channel() as channel:
            stubs, value = Stubs(channel), 0
            while not ends.is_set():
                value += 1
                try:
                    request = commit_request("beside", value)
                    stubs.offsets.CommitOffsets(request, timeout=WAIT_SECONDS)
                except Exception as error:  # noqa: BLE001  It is told below.
                    failures.append(error)
                    return

    thread = threading.Thread(target=commit, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(WAIT_SECONDS)
    assert not failures, failures


class LoopHolds:
    """What the server counts of its event loop."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._address = str(server.wait_for_event("metrics served")["address"])

    def too_long(self) -> float:
        """How many holds were too long so far; until now, as two looks were made since."""
        looks = self._scrape().value(f"{_HOLDS}_count")
        poll(
            lambda: self._scrape().value(f"{_HOLDS}_count") >= looks + 2,
            WAIT_SECONDS,
            self._server,
        )
        scrape = self._scrape()
        in_time = scrape.value(f"{_HOLDS}_bucket", le=str(HOLD_SECONDS_MAX))
        return scrape.value(f"{_HOLDS}_count") - in_time

    def _scrape(self) -> Scrape:
        return Scrape.from_address(self._address)


@pytest.mark.parametrize("name", LARGE_CALLS)
def test_a_call_on_a_large_group_does_not_hold_the_event_loop(
    server: ServerProcess, large: LargeGroups, name: str
) -> None:
    case, holds = LARGE_CALLS[name], LoopHolds(server)
    found = []
    with commits_beside(server):
        for _ in range(TRIES):
            case.prepare(large)
            before = holds.too_long()
            case.run(large)
            found.append(holds.too_long() - before)
            if not found[-1]:
                return
    pytest.fail(f"it held the event loop for more than {HOLD_SECONDS_MAX} s: {found} times")


def test_all_calls_of_the_contract_are_tried() -> None:
    assert {method for each in LARGE_CALLS.values() for method in each.methods} == METHODS.keys()


def test_nothing_of_that_was_a_defect(server: ServerProcess, large: LargeGroups) -> None:
    server.stop_well()

"""A real server whose machine's clock is set while it runs, by libfaketime."""

from __future__ import annotations

import glob
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import Bounds, OffsetClient, ShiftBy, TopicPartition
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S = 60
ORDERS = TopicPartition("orders", 0)
CHECK_MS = 1000
SETTINGS = {
    "offsets.retention.check.interval.ms": CHECK_MS,
    "log.retention.check.interval.ms": CHECK_MS,
    "log.initial.task.delay.ms": 0,
}
SET_FORWARD, SET_BACK, RIGHT = "+365d", "-365d", "+0d"


class Machine:
    """What a server's process takes for the machine's clock. The monotonic one stays as it is."""

    def __init__(self, folder: Path) -> None:
        libraries = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not libraries:
            pytest.skip("libfaketime is not installed")
        self.folder = folder
        self._set = folder / "clock"
        self.set_clock(RIGHT)
        self._environment = {
            "LD_PRELOAD": libraries[0],
            "FAKETIME_TIMESTAMP_FILE": str(self._set),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set_clock(self, by: str) -> None:
        replaced = self._set.with_suffix(".new")
        replaced.write_text(f"{by}\n")
        replaced.rename(self._set)

    def server(self) -> ServerProcess:
        return ServerProcess(self.folder / "data", settings=SETTINGS, environment=self._environment)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    return Machine(tmp_path)


def events(server: ServerProcess, name: str) -> list[dict[str, object]]:
    return [each for each in server.events if name in each["event"]]


def wait_for_a_check(server: ServerProcess, client: OffsetClient, group: str) -> None:
    """Until the clock was seen to be set, and all groups were looked at since.

    Metrics do not tell it: `time.sleep`, which a scrape calls, fails under libfaketime.
    """
    poll(lambda: events(server, "the wall clock was set"), WAIT_S, server)
    client.commit(group, {ORDERS: 1}, retention=timedelta(milliseconds=1))
    poll(lambda: not client.fetch(group), WAIT_S, server)


def test_a_year_ahead_nothing_expires_and_it_is_told(machine: Machine) -> None:
    with machine.server() as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            for number in range(10):
                client.commit(f"g{number}", {ORDERS: number})
                client.delete_offsets(f"g{number}", [TopicPartition("none", 0)], reason="audited")
            machine.set_clock(SET_FORWARD)
            wait_for_a_check(server, client, "one")
            wait_for_a_check(server, client, "two")
            assert [client.fetch(f"g{n}")[ORDERS].offset for n in range(10)] == list(range(10))
            assert not client.is_serving("offsetd.clock")
            assert client.is_serving()
            info = client.get_server_info()
            assert info.clock_offset.days >= 364
            told = list(client.list_audit_events())
            assert "SuspendExpiry" in [each.method for each in told]
            machine.set_clock(RIGHT)
            poll(lambda: client.is_serving("offsetd.clock"), WAIT_S, server)
            assert len(list(client.list_audit_events())) > len(told)
        assert server.stop() == 0


def test_a_retry_is_known_two_minutes_later_by_the_clock(machine: Machine) -> None:
    with machine.server() as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            client.commit("g", {ORDERS: 10})
            reset = partial(
                client.reset_offsets,
                "g",
                ShiftBy(-1),
                bounds={ORDERS: Bounds(0, 100)},
                request_id="once",
            )
            first = reset()
            machine.set_clock("+120")
            assert reset() == first
            assert client.fetch("g")[ORDERS].offset == 9
        assert server.stop() == 0


def test_commits_of_a_clock_that_is_back_outlive_it(machine: Machine) -> None:
    with machine.server() as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            client.commit("before", {ORDERS: 1})
            before = client.fetch("before")[ORDERS].commit_time
            machine.set_clock(SET_BACK)
            client.commit("back", {ORDERS: 2})
            assert client.fetch("back")[ORDERS].commit_time >= before
        server.kill()
    with machine.server() as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            client.commit("restarted", {ORDERS: 3})
            assert client.fetch("restarted")[ORDERS].commit_time >= before
            machine.set_clock(RIGHT)
            # A restart had held expiry, too: as its clock was behind what is recorded.
            poll(lambda: len(events(server, "the wall clock was set")) == 2, WAIT_S, server)
            client.update_config({"expiry.grace.ms": "0"})
            wait_for_a_check(server, client, "one")
            wait_for_a_check(server, client, "two")
            for group in ("before", "back", "restarted"):
                assert ORDERS in client.fetch(group)
        assert server.stop() == 0

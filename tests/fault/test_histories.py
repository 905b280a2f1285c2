"""Many clients at once, kill -9 and compaction: what each group's clients saw has one order.

A run is served for seconds. Groups share log partitions, and segments are small, so that the
cleaner rewrites them all the time. How long, and how many runs: OFFSETD_TEST_HISTORY_SECONDS and
OFFSETD_TEST_HISTORIES, of which two go side by side.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs
import pytest
from chance import seed_of
from history_checker import Fetch, Operation, Refused, check_history
from recorded_clients import GroupCalls, Recorder, Serving
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from pathlib import Path

    from history_checker import Call

pytestmark = pytest.mark.long(minutes=4)

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
RUNS = int(os.environ.get("OFFSETD_TEST_HISTORIES", "60" if NIGHTLY else "10"))
SECONDS = float(os.environ.get("OFFSETD_TEST_HISTORY_SECONDS", "20"))
SIDE_BY_SIDE = 2
CLIENTS = 8
GROUPS = [f"group-{number}" for number in range(5)]
JOIN_SECONDS_MAX = 120
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "internal.offsets.topic.segment.bytes": 16_384,
    "journal.file.bytes": 1_048_576,
    "max.message.bytes": 16_384,
    "log.initial.task.delay.ms": 0,
    "log.flush.offset.checkpoint.interval.ms": 50,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "request.id.window.ms": 0,
}


@attrs.define
class Run:
    """One run: what happened in it."""

    folder: Path
    seed: int
    recorder: Recorder = attrs.field(factory=lambda: Recorder(GROUPS))
    serving: Serving = attrs.field(factory=Serving)
    kills: int = 0
    segments_cleaned: int = 0
    defects: list[BaseException] = attrs.field(factory=list)

    def go(self) -> None:
        """Fails if a client meets what it may not meet, or a group's history has no order."""
        clients = [
            threading.Thread(target=self._client, args=(number,)) for number in range(CLIENTS)
        ]
        for each in clients:
            each.start()
        try:
            self._kill_and_start_again()
        finally:
            self.serving.stop()
            for each in clients:
                each.join(JOIN_SECONDS_MAX)
        assert not any(each.is_alive() for each in clients), "a client hangs"
        if self.defects:
            raise self.defects[0]
        for group_id, history in self.recorder.histories.items():
            try:
                check_history(history)
            except AssertionError as error:
                error.add_note(f"{group_id}, seed {self.seed}")
                raise

    def _kill_and_start_again(self) -> None:
        rng = random.Random(self.seed)
        left = SECONDS  # Of being served.
        while True:
            with ServerProcess(self.folder, settings=SETTINGS) as server:
                server.wait_until_serving()
                self.serving.begin(server.channel)
                served = min(left, rng.uniform(0.3, 5.0))
                left -= served
                if self.serving.stopping.wait(served) or left <= 0:
                    self._read_all(server)
                    self._note_cleaning(server)
                    self.serving.stop()
                    assert server.stop() == 0, server.log
                    return
                self.serving.end()
                server.kill()
                self.kills += 1
                self._note_cleaning(server)

    def _read_all(self, server: ServerProcess) -> None:
        with server.channel() as channel:
            for group_id in GROUPS:
                self.recorder.record(CLIENTS, GroupCalls(group_id, Stubs(channel)), Fetch())

    def _note_cleaning(self, server: ServerProcess) -> None:
        errors = [event for event in server.events if event["level"] == "error"]
        assert not errors, errors[0]
        self.segments_cleaned += sum(event["event"] == "log cleaned" for event in server.events)

    def _client(self, number: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        server_number = 0
        try:
            while (connected := self.serving.connect(server_number)) is not None:
                server_number, channel = connected
                with channel:
                    stubs = Stubs(channel)
                    while not self.serving.stopping.is_set():
                        group_id = rng.choice(GROUPS)
                        call = self.recorder.draw(group_id, rng)
                        if not self.recorder.record(number, GroupCalls(group_id, stubs), call):
                            break
        except BaseException as error:  # noqa: BLE001  Raised again by `go`.
            self.defects.append(error)
            self.serving.stop()


def kind(operation: Operation) -> str:
    """What was done, and what came of it."""
    call: Call = operation.call
    if operation.outcome is None:
        return f"{type(call).__name__}: unanswered"
    if isinstance(operation.outcome, Refused):
        return f"{type(call).__name__}: {operation.outcome.reason}"
    return type(call).__name__


@pytest.mark.parametrize("number", range(-(-RUNS // SIDE_BY_SIDE)))
def test_what_clients_see_of_a_group_has_one_order_over_kills_and_cleaning(
    tmp_path: Path, number: int
) -> None:
    seed = seed_of(number)
    runs = [Run(tmp_path / f"data-{each}", seed + each) for each in range(SIDE_BY_SIDE)]
    print(f"seeds {[run.seed for run in runs]}")
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        ends = [pool.submit(run.go) for run in runs]
    for end in ends:
        end.result()
    for run in runs:
        operations = [each for history in run.recorder.histories.values() for each in history]
        counts = Counter(map(kind, operations))
        print(f"{len(operations)} calls, {run.kills} kills, {run.segments_cleaned} rounds cleaned")
        print(dict(sorted(counts.items())))
        if SECONDS >= 20:
            assert run.kills > 0
            assert run.segments_cleaned > 0
            for met in (
                "Fetch",
                "Commit",
                "Acquire",
                "Release",
                "DeleteOffsets",
                "Commit: OFFSET_CONFLICT",
                "Commit: EPOCH_FENCED",
                "Commit: LEASE_HELD",
            ):
                assert counts[met] > 0, f"no {met}, which shows nothing"

"""Workers of a group in processes of their own, of which one is killed, or stands still."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from consumer_worker import SESSION_S
from offsetd_clients import OffsetClient, TopicPartition
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_S = 120
WORKER = Path(__file__).parents[1] / "consumer_worker.py"
FILES = 12
BACKLOG = 1500
SETTINGS = {
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": int(SESSION_S * 1000),
    "history.ms": 3_600_000,  # Every commit is looked at afterwards.
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=SETTINGS) as process:
        yield process.wait_until_serving()
        process.stop_well()


@attrs.define(kw_only=True)
class Workers:
    """Workers of one group on one folder, and what each has recorded."""

    server: ServerProcess
    group: str
    folder: Path
    written: int = 0
    processes: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    def start(self, stop_after: int = 0) -> None:
        """One more."""
        arguments = [self.server.address, self.group, self.folder, self.path(len(self.processes))]
        command = [sys.executable, WORKER, *arguments, str(stop_after)]
        self.processes.append(subprocess.Popen([str(each) for each in command]))

    def path(self, index: int) -> Path:
        """Of a worker's record."""
        return self.folder.parent / f"worker-{index}.record"

    def notes(self, index: int, *what: str) -> list[dict[str, Any]]:
        """What a worker has recorded, of some kind; a line that is being written is left out."""
        path = self.path(index)
        text = path.read_text() if path.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]
        return [each for each in found if each["what"] in what]

    def items(self) -> list[dict[str, Any]]:
        """All that was handled, by whomever."""
        return [each for index in range(len(self.processes)) for each in self.notes(index, "item")]

    def count(self, index: int) -> int:
        """How many items a worker has handled."""
        path = self.path(index)
        return path.read_bytes().count(b'"what": "item"') if path.exists() else 0

    def wait_for_items(self, counts: dict[int, int]) -> None:
        """Until workers have handled so many each; there is always more to do for all."""

        def is_reached() -> bool:
            handled = sum(self.count(index) for index in range(len(self.processes)))
            if self.written - handled < BACKLOG:
                self.write(BACKLOG)
            return all(self.count(index) >= count for index, count in counts.items())

        poll(is_reached, WAIT_S)

    def write(self, count: int) -> None:
        """Numbered lines, spread over the files."""
        numbers = range(self.written, self.written + count)
        self.written += count
        for index in range(FILES):
            with (self.folder / f"events-{index:02}.jsonl").open("a") as file:
                for number in numbers[index::FILES]:
                    line = {"number": number, "padding": "x" * (number % 50)}
                    file.write(json.dumps(line) + "\n")

    def end(self) -> None:
        """Those who live leave in good order."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes:
            assert process.wait(WAIT_S) in (0, -signal.SIGKILL)

    def kill(self) -> None:
        """Whatever became of a test, nobody is left."""
        for process in self.processes:
            process.kill()
            process.wait(WAIT_S)


@pytest.fixture
def workers(server: ServerProcess, group: str, tmp_path: Path) -> Iterator[Workers]:
    folder = tmp_path / "events"
    folder.mkdir()
    workers = Workers(server=server, group=group, folder=folder)
    yield workers
    workers.kill()


def is_all_committed(workers: Workers, client: OffsetClient) -> bool:
    stored = client.fetch(workers.group)
    sizes = {path.name: path.stat().st_size for path in workers.folder.iterdir()}
    return {each.topic: committed.offset for each, committed in stored.items()} == sizes


def check_nobody_was_given_what_another_had(workers: Workers) -> None:
    """An item is handed out before anybody has its file in a later generation."""
    assigned: dict[str, list[tuple[int, int]]] = {}
    for index in range(len(workers.processes)):
        for note in workers.notes(index, "assigned"):
            for topic in note["topics"]:
                assigned.setdefault(topic, []).append((note["generation"], note["at_ns"]))
    for item in workers.items():
        later = [
            at for generation, at in assigned[item["topic"]] if generation > item["generation"]
        ]
        assert not later or item["given_ns"] < min(later), f"handed out by a fenced worker: {item}"


def check_commits_never_passed_what_was_processed(workers: Workers, client: OffsetClient) -> None:
    """Every commit that was ever made, by its time."""
    first_ms: dict[tuple[str, int], int] = {}
    next_of: dict[tuple[str, int], int] = {}
    for item in workers.items():
        place = (item["topic"], item["offset"])
        first_ms[place] = min(first_ms.get(place, item["wall_ms"]), item["wall_ms"])
        next_of[place] = item["offset_next"]
    # When all before an offset was processed: the latest first time of any.
    processed_ms: dict[TopicPartition, dict[int, int]] = {}
    for topic, offset in sorted(next_of):
        reached = processed_ms.setdefault(TopicPartition(topic, 0), {0: 0})
        assert offset in reached, f"{topic}: nobody processed what ends at {offset}"
        reached[next_of[topic, offset]] = max(reached[offset], first_ms[topic, offset])
    commit_count = 0
    for event in client.list_offset_history(workers.group):
        assert event.offset is not None
        committed_ms = int(event.time.timestamp() * 1000)
        assert processed_ms[event.topic_partition][event.offset] <= committed_ms
        commit_count += 1
    assert commit_count > FILES


def check(workers: Workers, client: OffsetClient) -> None:
    """What has to hold at the end, when all is committed."""
    assert {item["number"] for item in workers.items()} == set(range(workers.written))
    check_nobody_was_given_what_another_had(workers)
    check_commits_never_passed_what_was_processed(workers, client)


def test_ten_thousand_items_are_processed_though_a_worker_is_killed(
    workers: Workers, client: OffsetClient
) -> None:
    for _ in range(3):
        workers.start()
    workers.wait_for_items({0: 200, 1: 200, 2: 200})
    workers.processes[1].kill()
    workers.processes[1].wait(WAIT_S)
    handled = workers.count(1)
    workers.write(max(10_000 - workers.written, BACKLOG))
    poll(lambda: is_all_committed(workers, client), WAIT_S)
    workers.end()
    check(workers, client)
    assert workers.written >= 10_000
    assert workers.count(1) == handled
    # It was killed before it could be told: the others have its files by now.
    assert not workers.notes(1, "lost", "ends")
    assert workers.notes(0, "ends")
    assert workers.notes(2, "ends")


def test_a_worker_that_stood_still_is_fenced_and_joins_again(
    workers: Workers, client: OffsetClient
) -> None:
    workers.start(stop_after=100)
    workers.start()
    workers.wait_for_items({0: 100, 1: 100})
    poll(lambda: workers.notes(0, "stops"), WAIT_S)
    workers.write(500)
    poll(lambda: is_all_committed(workers, client), WAIT_S)
    held = workers.notes(0, "assigned")[-1]
    assert workers.notes(1, "assigned")[-1]["generation"] > held["generation"]
    os.kill(workers.processes[0].pid, signal.SIGCONT)
    poll(lambda: workers.notes(0, "fenced", "stops")[-1]["what"] == "fenced", WAIT_S)
    lost, fenced = workers.notes(0, "lost")[-1], workers.notes(0, "fenced")[-1]
    assert lost["topics"] == held["topics"]
    assert (fenced["reason"], fenced["topics"]) == ("UNKNOWN_MEMBER_ID", held["topics"])
    poll(lambda: workers.notes(0, "assigned")[-1]["generation"] > held["generation"], WAIT_S)
    workers.write(200)
    poll(lambda: is_all_committed(workers, client), WAIT_S)
    workers.end()
    check(workers, client)

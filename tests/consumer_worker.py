"""A worker of a group that tails a folder, and records what it handles, also if it is killed.

    python consumer_worker.py ADDRESS GROUP FOLDER RECORD [STOP_AFTER]

Each line of the record is JSON, written in one piece: an item with the time when it was handed out
and the time when it was handled, or what the worker was told. Times are in nanoseconds, of a clock
that all processes share. After STOP_AFTER items it stops itself, until it is continued.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from offsetd_clients import OffsetClient, TopicPartition
from offsetd_clients.consumer.errors import ConsumerFenced
from offsetd_clients.consumer.settings import ConsumerSettings
from offsetd_clients.sync.consumer import Consumer

SESSION_S = 3.0
HANDLING_S = 0.0005
EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


class Record:
    """Lines that are there as soon as they are written, whatever becomes of the process."""

    def __init__(self, path: Path) -> None:
        self.has_stopped = False
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def note(self, what: str, **fields: Any) -> None:
        line = json.dumps({"what": what, "at_ns": time.monotonic_ns(), **fields}) + "\n"
        assert os.write(self._file, line.encode()) == len(line)


def names(topic_partitions: tuple[TopicPartition, ...]) -> list[str]:
    return [each.topic for each in topic_partitions]


def work(consumer: Consumer[bytes], record: Record, stop_after: int) -> None:
    """Handles items until it is woken up."""
    for count, item in enumerate(consumer, 1):
        given_ns = time.monotonic_ns()
        time.sleep(HANDLING_S)
        record.note(
            "item",
            topic=item.topic_partition.topic,
            offset=item.offset,
            offset_next=item.offset_next,
            number=json.loads(item.value)["number"],
            generation=consumer.generation_id,
            given_ns=given_ns,
            wall_ms=time.time_ns() // 1_000_000,
        )
        if count == stop_after:
            record.has_stopped = True
            record.note("stops")
            os.kill(os.getpid(), signal.SIGSTOP)
            record.note("continues")


def main(address: str, group_id: str, folder: str, record_path: str, stop_after: str = "0") -> None:
    """Until SIGTERM."""
    sys.path.insert(0, str(EXAMPLES))
    from tail_jsonl import JsonlFolder

    record = Record(Path(record_path))
    settings = ConsumerSettings(
        auto_commit_interval_s=0.1,
        session_timeout_s=SESSION_S,
        heartbeat_interval_s=0.2,
        poll_interval_s_max=600.0,
        source_interval_s=0.5,
    )
    is_stopping = False

    def told(what: str) -> Any:
        return lambda partitions: record.note(
            what, topics=names(partitions), generation=consumer.generation_id
        )

    def stop(*_: object) -> None:
        nonlocal is_stopping
        is_stopping = True
        consumer.wakeup()

    with (
        OffsetClient(address) as client,
        Consumer(
            client,
            group_id,
            JsonlFolder(Path(folder)),
            settings,
            on_assigned=told("assigned"),
            on_revoked=told("revoked"),
            on_lost=told("lost"),
        ) as consumer,
    ):
        signal.signal(signal.SIGTERM, stop)
        record.note("begins", pid=os.getpid())
        while not is_stopping:
            try:
                work(consumer, record, int(stop_after))
            except ConsumerFenced as fenced:
                record.note("fenced", reason=fenced.reason, topics=names(fenced.partitions))
                stop_after = "0" if record.has_stopped else stop_after
    record.note("ends")


if __name__ == "__main__":
    main(*sys.argv[1:])

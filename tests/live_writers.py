"""Who commits to a server all the time, while its folder is cleaned and read."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Self

from offsetd.v1 import offset_service_pb2

if TYPE_CHECKING:
    from pathlib import Path

    from server_process import Stubs

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "internal.offsets.topic.segment.bytes": 16384,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "request.id.window.ms": 1000,
    "log.initial.task.delay.ms": 0,
    "log.flush.offset.checkpoint.interval.ms": 100,
}
PARTITIONS = 20
COMMIT_PAUSE_SECONDS = 0.005


class Writer:
    """Commits ever larger numbers for one group until it is stopped."""

    def __init__(self, stubs: Stubs) -> None:
        self.acknowledged = 0
        self._stubs = stubs
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            number = self.acknowledged + 1
            offsets = [
                offset_service_pb2.OffsetCommit(topic="t", partition=each, offset=number)
                for each in range(PARTITIONS)
            ]
            self._stubs.offsets.CommitOffsets(
                offset_service_pb2.CommitOffsetsRequest(group_id="g", offsets=offsets)
            )
            self.acknowledged = number
            time.sleep(COMMIT_PAUSE_SECONDS)


def segments(folder: Path) -> frozenset[tuple[str, int]]:
    with os.scandir(folder / "__consumer_offsets-0") as entries:
        return frozenset((each.name, each.inode()) for each in entries if each.name[-4:] == ".log")

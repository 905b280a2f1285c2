"""Files of a real server that commits and cleans are looked at meanwhile: nothing seems damaged."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from log_commands import offsetd_log
from offsetd.v1 import offset_service_pb2
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "internal.offsets.topic.segment.bytes": 16384,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "request.id.window.ms": 1000,
    "log.initial.task.delay.ms": 0,
    "log.flush.offset.checkpoint.interval.ms": 100,
}
LOOKED_AT_SECONDS = 12.0


def segments(folder: Path) -> frozenset[tuple[str, int]]:
    """The log's segments by name and inode; one that goes meanwhile may be in it or not."""
    with os.scandir(folder / "__consumer_offsets-0") as entries:
        return frozenset(
            (entry.name, entry.inode()) for entry in entries if entry.name.endswith(".log")
        )


COMMANDS = (("verify",), ("dump",), ("describe",), ("clean", "--dry-run"), ("retain", "--dry-run"))


def test_no_command_finds_anything_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    stopping = threading.Event()

    def commit(stubs: Stubs) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            offsets = [
                offset_service_pb2.OffsetCommit(topic="t", partition=each, offset=number)
                for each in range(20)
            ]
            stubs.offsets.CommitOffsets(
                offset_service_pb2.CommitOffsetsRequest(group_id="g", offsets=offsets)
            )

    with ServerProcess(folder, settings=SETTINGS) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            writer = threading.Thread(target=commit, args=(Stubs(channel),))
            writer.start()
            looks, changes, seen = 0, 0, segments(folder)
            try:
                until = time.monotonic() + LOOKED_AT_SECONDS
                while time.monotonic() < until:
                    for command in COMMANDS:
                        outcome = offsetd_log(*command, "--data-dir", str(folder))
                        # What was written within the window cannot be cleaned yet.
                        is_too_young = "nothing to clean" in outcome.err
                        assert outcome.code == 0 or is_too_young, (outcome.out, outcome.err)
                        assert "invalid bytes" not in outcome.out
                        assert " at byte " not in outcome.out
                        looks += 1
                    changes += (now := segments(folder)) != seen
                    seen = now
            finally:
                stopping.set()
                writer.join(60)
            assert not writer.is_alive()
        assert looks > 5
        assert changes > 2, "nothing was cleaned meanwhile"
        assert server.stop() == 0
    assert offsetd_log("verify", "--data-dir", str(folder)).code == 0

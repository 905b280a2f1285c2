"""kill -9 in the middle of commits, again and again, on the real server and the real disk.

The page cache survives a kill: that what was acknowledged is on stable storage is for the power
cuts and the simulated disk to show. This shows that nothing acknowledged is lost, nothing torn and
nothing made up, whatever the process was doing.
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import grpc
import pytest
from chance import seed_of
from commit_history import History, Writers
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long(minutes=1)

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
KILLS = int(os.environ.get("OFFSETD_TEST_KILLS", "300" if NIGHTLY else "30"))
WRITERS = 6
PARTITIONS = 7
RUN_SECONDS_MAX = 0.6
# Small, so that between the kills segments roll and are cleaned, and the journal turns over.
SETTINGS = {
    "internal.offsets.topic.segment.bytes": 16_384,
    "journal.file.bytes": 1_048_576,
    "max.message.bytes": 16_384,
    "log.initial.task.delay.ms": 0,
    "log.flush.offset.checkpoint.interval.ms": 50,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "file.delete.delay.ms": 0,
    "request.id.window.ms": 0,
}


def test_nothing_acknowledged_is_lost_and_nothing_torn_over_many_kills(tmp_path: Path) -> None:
    seed = seed_of()
    print(f"seed {seed}, {KILLS} kills")
    rng = random.Random(seed)
    history = History(tmp_path / "acknowledged.jsonl")
    frames_again = rounds_cleaned = 0
    for number in range(KILLS):
        with ServerProcess(tmp_path / "data", settings=SETTINGS) as server:
            if rng.random() < 0.2:
                # While it opens the folder or loads.
                server.wait_for_event("listening")
                time.sleep(rng.uniform(0, 0.3))
                server.kill()
                continue
            server.wait_until_serving()
            opened = server.wait_for_event("folder open")
            frames_again += opened["batches_appended_again"]
            channels = [server.channel() for _ in range(WRITERS)]
            history.check(Stubs(channels[0]))
            writers = Writers(history, [Stubs(each) for each in channels], partitions=PARTITIONS)
            time.sleep(rng.uniform(0, RUN_SECONDS_MAX))
            server.kill()
            rounds_cleaned += sum(event["event"] == "log cleaned" for event in server.events)
            writers.stop()
            for channel in channels:
                channel.close()
            assert not writers.refused
            codes = {end.code() for end in writers.ends}
            assert codes <= {grpc.StatusCode.UNAVAILABLE}, (number, codes)
    with ServerProcess(tmp_path / "data", settings=SETTINGS) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            history.check(Stubs(channel))
        assert server.stop() == 0
        assert not [event for event in server.events if event["level"] == "error"], server.log
    assert history.acknowledgements > 10 * KILLS, "the kills came too early to show anything"
    print(f"{frames_again} batches appended again, {rounds_cleaned} rounds cleaned")
    assert frames_again > 0, "no kill left anything to recover"
    assert rounds_cleaned > 0, "nothing was cleaned that a kill could have torn"

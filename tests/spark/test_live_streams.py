"""A stream beside a real server that writes and cleans: whole, or it says that it is not.

Each commit writes all partitions with the next number: where none is missing, no number is.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from live_writers import PARTITIONS, SETTINGS, Writer, segments
from offsetd_pipeline.source import OffsetdSource
from offsetd_pipeline.streams.errors import RecordsLost
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from pathlib import Path

SECONDS_MAX = 120.0
LOSSES_MIN = 2
LOSING = {**SETTINGS, "history.ms": 0}
KEEPING = {**SETTINGS, "history.ms": 3_600_000}


class Follower:
    """A stream, batch after batch, as Spark would read it."""

    def __init__(self, options: dict[str, str]) -> None:
        self.numbers: dict[int, list[int]] = defaultdict(list)
        self.places: set[int] = set()
        source = OffsetdSource({"mode": "history", **options})
        self._stream: Any = source.streamReader(source.schema())
        self._position = self._stream.initialOffset()

    def follow(self, limit: Any) -> int:
        """One batch; how many rows it had. What a batch that fails had does not count."""
        end = self._stream.latestOffset(self._position, limit)
        rows = [
            row
            for work in self._stream.partitions(self._position, end)
            for batch in self._stream.read(work)
            for row in batch.to_pylist()
        ]
        for row in rows:
            assert row["log_offset"] not in self.places, "a row comes twice"
            self.places.add(row["log_offset"])
            self.numbers[row["partition"]].append(row["offset"])
        self._position = end
        self._stream.commit(end)
        return len(rows)

    def check_whole(self) -> None:
        """That no number is missing between the first and the last."""
        for numbers in self.numbers.values():
            assert sorted(numbers) == list(range(min(numbers), max(numbers) + 1))


def wait_until_cleaned(folder: Path) -> None:
    """Until all that is there now was cleaned, or joined with others."""
    seen = segments(folder)
    until = time.monotonic() + SECONDS_MAX
    while not seen.isdisjoint(segments(folder)):
        assert time.monotonic() < until, "nothing is cleaned"
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["path", "server"])
def test_what_a_server_cleans_before_it_was_read_never_just_lacks(
    tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "offsets"
    losses = 0
    with ServerProcess(folder, settings=LOSING) as server:
        server.wait_until_serving()
        where = {"path": str(folder)} if kind == "path" else {"server": server.address}
        latest = {**where, "starting_offsets": "latest"}
        with server.channel() as channel, Writer(Stubs(channel)):
            follower = Follower(latest)
            until = time.monotonic() + SECONDS_MAX
            while losses < LOSSES_MIN and time.monotonic() < until:
                try:
                    # It reads a little, and then the cleaner is faster.
                    follower.follow(ReadMaxRows(50))
                    wait_until_cleaned(folder)
                    follower.follow(ReadAllAvailable())
                except RecordsLost:
                    losses += 1
                    follower.check_whole()
                    follower = Follower(latest)
            follower.check_whole()
            careless = Follower({**where, "fail_on_data_loss": "false"})
            for _ in range(5):
                careless.follow(ReadAllAvailable())
        assert losses >= LOSSES_MIN, "nothing was lost"
        server.stop_well()


def test_what_is_kept_for_its_time_is_whole_while_a_server_writes(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    with ServerProcess(folder, settings=KEEPING) as server:
        server.wait_until_serving()
        with server.channel() as channel, Writer(Stubs(channel)) as writer:
            followers = [
                Follower({"path": str(folder)}),
                Follower({"server": server.address}),
            ]
            until = time.monotonic() + SECONDS_MAX
            while writer.acknowledged < 300 and time.monotonic() < until:
                for follower in followers:
                    follower.follow(ReadMaxRows(1000))
        server.stop_well()
    folder_follower, server_follower = followers
    while folder_follower.follow(ReadMaxRows(1000)):
        pass
    for follower in followers:
        follower.check_whole()
        assert len(follower.numbers) == PARTITIONS
    assert max(folder_follower.numbers[0]) == writer.acknowledged
    assert folder_follower.places >= server_follower.places

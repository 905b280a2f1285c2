"""A real server that is written to at random and cleaned all the time, and what it had when."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from offsetd_clients import OffsetClient, OffsetFormat, OffsetToCommit, TopicPartition
from server_process import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

SETTINGS: dict[str, object] = {
    "offsets.topic.num.partitions": 2,
    "internal.offsets.topic.segment.bytes": 16384,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.cleaner.delete.retention.ms": 0,
    "request.id.window.ms": 1000,
    "log.initial.task.delay.ms": 0,
    "log.flush.offset.checkpoint.interval.ms": 100,
}
GROUPS = ("billing", "größe", "b")  # Not all in one log partition.
TOPICS = ("orders", "payments")
PARTITIONS = 8
METADATA = "x" * 120

Key = tuple[str, str, int]
State = dict[Key, int]


class Life:
    """Commits and deletions, and the offsets that there were after some of them."""

    def __init__(self, chance: Random) -> None:
        self.state: State = {}
        self.moments: list[tuple[datetime, State]] = []
        self._chance = chance
        self._number = 0

    def live(self, client: OffsetClient, *, steps: int) -> None:
        """Each step is a call; between some of them a moment is taken down."""
        for _ in range(steps):
            group, topic = self._chance.choice(GROUPS), self._chance.choice(TOPICS)
            there = [key for key in self.state if key[:2] == (group, topic)]
            if there and self._chance.random() < 0.15:
                self._delete(client, self._chance.sample(there, min(len(there), 3)))
            else:
                self._commit(client, group, topic)
            if self._chance.random() < 0.05:
                self.take_down()

    def take_down(self) -> None:
        """A moment in a millisecond in which nothing is written."""
        time.sleep(0.003)
        self.moments.append((datetime.now(UTC), dict(self.state)))
        time.sleep(0.003)

    def _commit(self, client: OffsetClient, group: str, topic: str) -> None:
        self._number += 1
        chosen = self._chance.sample(range(PARTITIONS), self._chance.choice((1, 3, PARTITIONS)))
        offset = OffsetToCommit(self._number, metadata=METADATA)
        client.commit(group, {TopicPartition(topic, each): offset for each in chosen})
        self.state |= {(group, topic, each): self._number for each in chosen}

    def _delete(self, client: OffsetClient, keys: list[Key]) -> None:
        group = keys[0][0]
        client.delete_offsets(group, [TopicPartition(topic, each) for _, topic, each in keys])
        for key in keys:
            del self.state[key]


def exported(client: OffsetClient) -> dict[Key, dict[str, Any]]:
    """All that a server has, but for revisions, which are its own."""
    content = b"".join(client.export_offsets(OffsetFormat.JSONL))
    found = {}
    for line in map(json.loads, content.splitlines()):
        line.pop("revision")
        found[line["group"], line["topic"], line["partition"]] = line
    return found


def serving(folder: Path) -> ServerProcess:
    """A server on a folder."""
    return ServerProcess(folder, settings=SETTINGS)

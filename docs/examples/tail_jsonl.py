"""Tails a folder of JSONL files, shared out among all workers of a group.

    python tail_jsonl.py FOLDER [GROUP]

Each file `*.jsonl` is a topic of one partition, and offsets are bytes: what is committed is where
the next line begins. Start it as often as you like; each line is printed by at least one worker,
also when workers come, go, or are killed. SIGINT and SIGTERM end it in good order.
"""

import argparse
import json
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from offsetd_clients import (
    Bounds,
    Consumer,
    ConsumerFenced,
    ConsumerSettings,
    Item,
    OffsetClient,
    Source,
    TopicPartition,
)


class JsonlFolder(Source[bytes]):
    """Lines of the files of a folder, which others append to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def partition_counts(self) -> dict[str, int]:
        """Each file has one; files that come later are found."""
        return {path.name: 1 for path in self._folder.glob("*.jsonl")}

    def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> Iterator[Item[bytes]]:
        """Whole lines: one that has no end yet is left for later."""
        path = self._folder / topic_partition.topic
        if not path.exists():
            return  # It was removed: soon it is nobody's to read.
        with path.open("rb") as file:
            if file.seek(0, 2) < offset:
                raise RuntimeError(f"{path} was read up to byte {offset}, and is shorter now")
            file.seek(offset)
            for _ in range(items_max):
                line = file.readline()
                if not line.endswith(b"\n"):
                    return
                yield Item(topic_partition, offset, offset + len(line), line)
                offset += len(line)

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        """From its first byte to its last, for others to see the lag."""
        path = self._folder / topic_partition.topic
        return Bounds(0, path.stat().st_size) if path.exists() else Bounds()


def handle(item: Item[bytes]) -> None:
    """Your work. A line counts as processed when this has returned and the next is asked for."""
    place = f"{item.topic_partition.topic}@{item.offset}"
    try:
        event = json.loads(item.value)
    except ValueError as error:
        print(f"{place} is passed over: {error}", file=sys.stderr, flush=True)
    else:
        print(place, json.dumps(event), flush=True)


def main(folder: str, group_id: str) -> None:
    """Until it is told to stop."""
    settings = ConsumerSettings(auto_commit_interval_s=1.0, session_timeout_s=10.0)
    with (
        OffsetClient() as client,
        Consumer(client, group_id, JsonlFolder(Path(folder)), settings) as consumer,
    ):
        is_stopping = False

        def stop(*_: object) -> None:
            nonlocal is_stopping
            is_stopping = True
            consumer.wakeup()

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        while not is_stopping:
            try:
                for item in consumer:
                    handle(item)
            except ConsumerFenced as fenced:
                # Others have our files now, and begin where we committed. We join them again.
                print(f"fenced: {fenced}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", help="where the files *.jsonl are")
    parser.add_argument("group_id", metavar="GROUP", nargs="?", default="tail", help="tail")
    asked = parser.parse_args()
    if not Path(asked.folder).is_dir():
        parser.error(f"{asked.folder} is not a folder")
    main(asked.folder, asked.group_id)

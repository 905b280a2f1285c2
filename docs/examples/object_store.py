"""Consumes objects of a bucket in the order of their keys, with asyncio.

    python object_store.py FOLDER GROUP [HOLDER]

Keys are `TOPIC/PARTITION/NUMBER` with the number in 20 digits, as sinks write them: the number is
the offset, and a listing that starts after a key finds what is next, however much there was
before. Here the store is a folder; `S3Store` is the same for a bucket. With a HOLDER it takes a
lease, to be the only one: others stand by, and take over when it ends or dies.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from offsetd_clients import (
    AsyncConsumer,
    AsyncOffsetClient,
    AsyncSource,
    Bounds,
    ConsumerSettings,
    Item,
    LeaseTerms,
    TopicPartition,
)

KEYS_MAX = 1000  # What one listing brings, at most.


class ObjectStore(Protocol):
    """What is asked of a store; the calls may wait, each is made in a thread."""

    def folders(self, prefix: str) -> list[str]:
        """What follows `prefix` in keys, up to the next slash."""

    def keys_after(self, prefix: str, key: str, count_max: int) -> list[str]:
        """Keys that begin with `prefix` and are behind `key`, in order."""

    def get(self, key: str) -> bytes:
        """An object's content."""


class FolderStore:
    """A folder, as if it were a bucket."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folders(self, prefix: str) -> list[str]:
        parent = self._root / prefix
        return [path.name for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []

    def keys_after(self, prefix: str, key: str, count_max: int) -> list[str]:
        parent = self._root / prefix
        names = sorted(path.name for path in parent.iterdir()) if parent.is_dir() else []
        return [each for name in names if (each := prefix + name) > key][:count_max]

    def get(self, key: str) -> bytes:
        return (self._root / key).read_bytes()


class S3Store:
    """A bucket of S3: `S3Store(boto3.client("s3"), "my-bucket")`."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def folders(self, prefix: str) -> list[str]:
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            page = self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=prefix, Delimiter="/", **more
            )
            found += [each["Prefix"][len(prefix) : -1] for each in page.get("CommonPrefixes", ())]
            if not page["IsTruncated"]:
                return found
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def keys_after(self, prefix: str, key: str, count_max: int) -> list[str]:
        page = self._client.list_objects_v2(
            Bucket=self._bucket, Prefix=prefix, StartAfter=key, MaxKeys=min(count_max, KEYS_MAX)
        )
        return [each["Key"] for each in page.get("Contents", ())]

    def get(self, key: str) -> bytes:
        content: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return content


class Objects(AsyncSource[bytes]):
    """The objects of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def partition_counts(self) -> Mapping[str, int]:
        counts = {}
        for topic in await asyncio.to_thread(self._store.folders, ""):
            partitions = await asyncio.to_thread(self._store.folders, f"{topic}/")
            counts[topic] = max((int(each) + 1 for each in partitions), default=0)
        return counts

    async def read(
        self, topic_partition: TopicPartition, offset: int, items_max: int
    ) -> list[Item[bytes]]:
        prefix = prefix_of(topic_partition)
        before = f"{prefix}{offset - 1:020}" if offset else prefix
        keys = await asyncio.to_thread(self._store.keys_after, prefix, before, items_max)
        contents = await asyncio.gather(*(asyncio.to_thread(self._store.get, key) for key in keys))
        numbers = [int(key[len(prefix) :]) for key in keys]
        return [
            Item(topic_partition, number, number + 1, content)
            for number, content in zip(numbers, contents, strict=True)
        ]

    async def bounds(self, topic_partition: TopicPartition) -> Bounds:
        """Where it begins. A bucket does not tell its last key, so that the lag is not known."""
        prefix = prefix_of(topic_partition)
        first = await asyncio.to_thread(self._store.keys_after, prefix, prefix, 1)
        return Bounds(earliest=int(first[0][len(prefix) :]) if first else None)


def prefix_of(topic_partition: TopicPartition) -> str:
    """What the keys of a partition begin with."""
    return f"{topic_partition.topic}/{topic_partition.partition}/"


async def main(folder: str, group_id: str, holder: str) -> None:
    """Until it is told to stop."""
    settings = ConsumerSettings(
        auto_commit_interval_s=1.0,
        read_items_max=16,  # So many objects are held in memory at a time.
        lease=LeaseTerms(holder=holder, ttl_s=10.0) if holder else None,
    )
    sizes: Counter[str] = Counter()
    async with (
        AsyncOffsetClient() as client,
        AsyncConsumer(client, group_id, Objects(FolderStore(Path(folder))), settings) as consumer,
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, consumer.wakeup)
        async for item in consumer:
            sizes[item.topic_partition.topic] += len(item.value)
            print(item.topic_partition, item.offset, len(item.value), flush=True)
    print("bytes:", dict(sizes), file=sys.stderr)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", help="which stands for the bucket")
    parser.add_argument("group_id", metavar="GROUP")
    parser.add_argument("holder", metavar="HOLDER", nargs="?", default="", help="takes a lease")
    asked = parser.parse_args()
    if not Path(asked.folder).is_dir():
        parser.error(f"{asked.folder} is not a folder")
    asyncio.run(main(asked.folder, asked.group_id, asked.holder))

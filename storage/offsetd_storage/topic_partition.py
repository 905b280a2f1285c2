"""A topic partition, and the name of its folder."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# Kafka's rule for topic names. A folder name is the topic, a dash and a number, so even `.` works.
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_PARTITION_MAX: Final = 2**31 - 1


class TopicPartition(NamedTuple):  # A tuple: it is hashed in C, so lookups of a log are fast.
    """`partition` of `topic`; its folder is `<topic>-<partition>`."""

    topic: str
    partition: int

    @property
    def folder_name(self) -> str:
        """The folder's name inside the data folder."""
        return f"{self.topic}-{self.partition}"

    @classmethod
    def of_folder(cls, name: str) -> TopicPartition | None:
        """The partition of a folder, split at the last dash as in Kafka; None if it has none."""
        topic, _, partition = name.rpartition("-")
        if not _PARTITION.fullmatch(partition):
            return None
        try:
            return cls.checked(topic, int(partition))
        except ValueError:
            return None

    @classmethod
    def checked(cls, topic: str, partition: int) -> TopicPartition:
        """The partition with this name, which comes from a file. Checks that it may name a folder.

        Raises ValueError.
        """
        if not (_TOPIC_NAME.fullmatch(topic) and 0 <= partition <= _PARTITION_MAX):
            raise ValueError(f"{topic!r}, {partition} is not a topic and partition")
        return cls(topic, partition)

    def __str__(self) -> str:
        return self.folder_name

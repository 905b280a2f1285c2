"""A partition's name, and the folder that goes by it."""

from __future__ import annotations

import attrs


@attrs.frozen(order=True, slots=True)
class TopicPartition:
    """`partition` of `topic`; its folder is `<topic>-<partition>`."""

    topic: str
    partition: int

    @property
    def folder_name(self) -> str:
        """The folder's name inside the data folder."""
        return f"{self.topic}-{self.partition}"

    @classmethod
    def of_folder(cls, name: str) -> TopicPartition | None:
        """The partition of a folder, split at the last dash as Kafka does; None if it is none."""
        topic, dash, partition = name.rpartition("-")
        if not (topic and dash and partition.isascii() and partition.isdigit()):
            return None
        if str(int(partition)) != partition:
            return None
        return cls(topic, int(partition))

    def __str__(self) -> str:
        return self.folder_name

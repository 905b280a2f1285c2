"""The configuration of a store: its topics, and the sizes of its journal."""

from __future__ import annotations

from typing import Any, Final

import attrs

from offsetd_storage.configuration.log_config import (
    OFFSETS_TOPIC,
    OFFSETS_TOPIC_LOG_CONFIG,
    LogConfig,
)
from offsetd_storage.journal.journal_format import FILE_BYTES_MAX, FRAME_BYTES_MAX

__all__ = ["OFFSETS_TOPIC", "LogStoreConfig", "TopicSpec"]

OFFSETS_PARTITIONS_DEFAULT: Final = 50  # Kafka's offsets.topic.num.partitions.
# More is probably a mistake: each partition takes files, and time at a start.
PARTITIONS_MAX: Final = 10_000


def _partitions() -> list[Any]:
    return [attrs.validators.ge(1), attrs.validators.le(PARTITIONS_MAX)]


@attrs.frozen(kw_only=True)
class TopicSpec:
    """A topic in the folder besides `__consumer_offsets`."""

    topic: str
    partitions: int = attrs.field(validator=_partitions())
    log: LogConfig
    # Whether an operator may remove its folder after a clean stop, so that it is recreated empty.
    is_removable: bool = True


@attrs.frozen(kw_only=True)
class LogStoreConfig:
    """Settings of a data folder. Sizes are in bytes."""

    # The number of partitions of `__consumer_offsets`. If this is None, the folder's number counts,
    # or the default. A folder with another number is refused, because a group's partition depends
    # on it.
    partitions: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_partitions())
    )
    log: LogConfig = OFFSETS_TOPIC_LOG_CONFIG
    other_topics: tuple[TopicSpec, ...] = ()
    # There are two such files. The larger they are, the more rarely all segments must be synced.
    journal_file_bytes: int = attrs.field(
        default=32 << 20,
        validator=[attrs.validators.ge(4096), attrs.validators.le(FILE_BYTES_MAX)],
    )
    journal_header_bytes: int = attrs.field(default=64 << 10, validator=attrs.validators.ge(512))
    # A flush above this size becomes several frames, each durable before the next.
    frame_bytes_max: int = attrs.field(
        default=4 << 20,
        validator=[attrs.validators.ge(4096), attrs.validators.le(FRAME_BYTES_MAX)],
    )
    # The largest size of all batches in memory that wait to be written to segments, in all logs.
    # Each log has an equal share, so that one flush does not write them all.
    unwritten_bytes_max: int = attrs.field(default=4 << 20, validator=attrs.validators.ge(0))
    recovery_threads: int = attrs.field(default=2, validator=attrs.validators.ge(1))

    def is_removable(self, topic: str) -> bool:
        """Whether a topic's folder may be removed by hand. If not, its loss is damage."""
        if topic == OFFSETS_TOPIC:
            return False
        return all(spec.is_removable for spec in self.other_topics if spec.topic == topic)

    def log_config(self, topic: str) -> LogConfig:
        """The settings of a topic's logs."""
        for spec in self.other_topics:
            if spec.topic == topic:
                return spec.log
        return self.log

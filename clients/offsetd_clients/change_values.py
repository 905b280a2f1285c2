"""What goes into, and comes out of, calls that move many offsets: plain values, no protobuf."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import attrs

from offsetd_clients.errors import OffsetdError
from offsetd_clients.values import Revision, TopicPartition


@attrs.frozen
class Bounds:
    """The offsets that a partition has: its first record's, and what lies behind its last."""

    earliest: int | None = None
    latest: int | None = None


@attrs.frozen
class ToOffset:
    """Reset to this offset."""

    offset: int


@attrs.frozen
class ShiftBy:
    """Reset so much further than what is committed, or back."""

    count: int


class ResetTo(StrEnum):
    """Reset to an end of each partition, or to what is committed, written again."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"


@attrs.frozen(order=True)
class OffsetChange:
    """An offset before (None: there was none) and after a change.

    `revision` is that of its record; None: it was only validated.
    """

    topic_partition: TopicPartition
    before: int | None
    after: int
    revision: Revision | None = attrs.field(default=None, order=False)


@attrs.frozen(kw_only=True)
class ResetOffsets:
    """What was written, by partition; `revision` None: it was only validated.

    `reported_end_count`: of how many partitions the end is what a commit once reported, which may
    be outdated. `unknown_end_count`: of how many it is not known, so that no offset was checked
    against it.
    """

    changes: tuple[OffsetChange, ...]
    revision: Revision | None
    reported_end_count: int = attrs.field(default=0, eq=False)  # Not kept for a second answer.
    unknown_end_count: int = attrs.field(default=0, eq=False)


@attrs.frozen(kw_only=True)
class ClonedGroup:
    """How many offsets were written, and how many of the target's stay as they were.

    `changes` are the first 1,000; `revision` None: it was only validated.
    """

    offset_count: int
    kept_offset_count: int
    changes: tuple[OffsetChange, ...]
    revision: Revision | None


class OffsetFormat(StrEnum):
    """A file of offsets: Kafka's CSV, rpk's lines, kafka-utils' JSON, and ours."""

    KAFKA_CSV = "csv"
    RPK = "rpk"
    KAFKA_UTILS_JSON = "kafka-utils"
    JSONL = "jsonl"


@attrs.frozen(kw_only=True)
class ImportedGroup:
    """What became of a group of a file; with an `error`, nothing of it was imported.

    `replaced_offset_count`: in how many partitions another offset was stored before. `changes`:
    what would be written, if it was only validated; of all groups together the first 10,000.
    """

    group_id: str
    offset_count: int
    revision: Revision | None
    error: OffsetdError | None
    replaced_offset_count: int = 0
    changes: tuple[OffsetChange, ...] = ()


@attrs.frozen(kw_only=True)
class AuditEvent:
    """A change that somebody made. `revision` is in `__offsetd_audit`; `what` is by method."""

    revision: Revision
    time: datetime
    method: str
    topic: str
    what: Mapping[str, Any]
    reason: str
    request_id: str
    peer: str

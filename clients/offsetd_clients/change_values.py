"""Arguments and results of calls that change many offsets: plain values, no protobuf."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import attrs

from offsetd_clients.errors import OffsetdError
from offsetd_clients.values import Revision, TopicPartition


@attrs.frozen
class Bounds:
    """The first offset of a partition, and the offset after its last record."""

    earliest: int | None = None
    latest: int | None = None


@attrs.frozen
class ToOffset:
    """Reset to this offset."""

    offset: int


@attrs.frozen
class ShiftBy:
    """Reset by `count` from the committed offset; a negative count goes back."""

    count: int


class ResetTo(StrEnum):
    """Reset to an end of each partition, or write the committed offset again (CURRENT)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"


@attrs.frozen(order=True)
class OffsetChange:
    """An offset before and after a change. `before` is None if none was stored.

    `revision` is that of its record. It is None if the call only validated.
    """

    topic_partition: TopicPartition
    before: int | None
    after: int
    revision: Revision | None = attrs.field(default=None, order=False)


@attrs.frozen(kw_only=True)
class ResetOffsets:
    """The changes of a reset, by partition. `revision` is None if the call only validated.

    `reported_end_count`: the number of partitions whose end was reported by a commit, and may be
    outdated.
    `unknown_end_count`: the number of partitions whose end is not known, so the new offset was not
    checked against it.
    """

    changes: tuple[OffsetChange, ...]
    revision: Revision | None
    # The answer to a repeated call does not contain it.
    reported_end_count: int = attrs.field(default=0, eq=False)
    unknown_end_count: int = attrs.field(default=0, eq=False)


@attrs.frozen(kw_only=True)
class ClonedGroup:
    """The numbers of written offsets, and of the target's offsets that were left unchanged.

    `changes` has the first 1,000 of the written offsets. `revision` is None if the call only
    validated.
    """

    offset_count: int
    kept_offset_count: int
    changes: tuple[OffsetChange, ...]
    revision: Revision | None


class OffsetFormat(StrEnum):
    """The formats of offset files: Kafka's CSV, rpk's lines, kafka-utils' JSON, and our own."""

    KAFKA_CSV = "csv"
    RPK = "rpk"
    KAFKA_UTILS_JSON = "kafka-utils"
    JSONL = "jsonl"


@attrs.frozen(kw_only=True)
class ImportedGroup:
    """The outcome for one group of a file. With an `error`, nothing of the group was imported.

    `replaced_offset_count`: the partitions in which another offset was stored before.
    `changes`: if the call only validated, the offsets that an import would write. It has the first
    10,000 of all groups together.
    """

    group_id: str
    offset_count: int
    revision: Revision | None
    error: OffsetdError | None
    replaced_offset_count: int = 0
    changes: tuple[OffsetChange, ...] = ()


@attrs.frozen(kw_only=True)
class AuditEvent:
    """One administrative change.

    `revision` is the revision of its audit record, which is in the topic `__offsetd_audit`. The
    entries of `what` depend on the method. `node_id`: the node of a cluster that recorded it; each
    node has an audit log of its own, with revisions of its own. Empty on a single server.
    `principal`: the caller, as in `User:alice`; empty if the server did not ask who called.
    """

    revision: Revision
    time: datetime
    method: str
    topic: str
    what: Mapping[str, Any]
    reason: str
    request_id: str
    peer: str
    node_id: str = ""
    principal: str = ""

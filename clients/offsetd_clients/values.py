"""The arguments and results of the client's calls: plain values, no protobuf."""

import operator
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, SupportsIndex, TypeAlias

import attrs


def whole(value: SupportsIndex) -> int:
    """Returns `value` (a numpy integer, for example) as a Python int.

    Raises TypeError if it is not a whole number.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{value!r} is not a whole number") from None


def check_text(_value: object, attribute: Any, text: object) -> None:
    """Raises TypeError unless the value is a str: protobuf would accept bytes too."""
    if not isinstance(text, str):
        raise TypeError(f"{attribute.name}: {text!r} is not a string")


def _whole_or_none(value: SupportsIndex | None) -> int | None:
    return None if value is None else whole(value)


@attrs.frozen(order=True)
class TopicPartition:
    """One partition of a topic, or of any other source that a consumer has positions in."""

    topic: str
    partition: int = attrs.field(converter=whole)

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


@attrs.frozen(order=True)
class Revision:
    """The position of a record in the offsets log. Every write of a group has a larger revision."""

    log_partition: int
    log_offset: int


@attrs.frozen
class OffsetToCommit:
    """The next offset to consume, with the conditions for storing it.

    At most one of these conditions may be set; if it does not hold, the whole commit raises
    `OffsetConflict`: `expected_offset` (this offset is stored), `expected_revision` (the stored
    offset was written at this log offset), `must_not_exist` (no offset is stored). `monotonic`: the
    commit raises `OffsetNotMonotonic` if the stored offset is larger. `end_offset` is the end of
    the source's partition; the server keeps it in memory only.
    """

    offset: int = attrs.field(converter=whole)
    leader_epoch: int | None = attrs.field(default=None, kw_only=True, converter=_whole_or_none)
    metadata: str = attrs.field(default="", kw_only=True, validator=check_text)
    expected_offset: int | None = attrs.field(default=None, kw_only=True, converter=_whole_or_none)
    expected_revision: int | None = attrs.field(
        default=None, kw_only=True, converter=_whole_or_none
    )
    must_not_exist: bool = attrs.field(default=False, kw_only=True)
    monotonic: bool = attrs.field(default=False, kw_only=True)
    end_offset: int | None = attrs.field(default=None, kw_only=True, converter=_whole_or_none)

    def __attrs_post_init__(self) -> None:
        expectations = (self.expected_offset, self.expected_revision, self.must_not_exist or None)
        if sum(expectation is not None for expectation in expectations) > 1:
            raise ValueError("an offset takes one precondition, not several")


@attrs.frozen(kw_only=True)
class CommittedOffset:
    """A stored offset. `revision` is the log offset of its record.

    `expire_time` is the time at which it expires if it is not committed again. It is None if the
    offset does not expire under the present settings and state of the group. `end_offset` is None
    if it was never reported, or if the server was restarted since.
    """

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_time: datetime
    expire_time: datetime | None
    revision: int
    end_offset: int | None


@attrs.frozen(kw_only=True)
class DeletedOffsets:
    """The offsets that were deleted.

    `revision` is None if nothing was stored, or if the call only validated.
    """

    partitions: tuple[TopicPartition, ...]
    revision: Revision | None


@attrs.frozen(kw_only=True)
class DeletedGroup:
    """The number of deleted offsets. `revision` is None if the call only validated."""

    offset_count: int
    revision: Revision | None


Retention: TypeAlias = timedelta | Literal["never"] | None
"""The time for which a group's offsets are kept. None stands for the server's setting."""


@attrs.frozen(kw_only=True)
class Lease:
    """A group's lease. Times are by the server's wall clock; they are None if the lease is over."""

    holder: str
    epoch: int
    ttl: timedelta
    grant_time: datetime | None
    expire_time: datetime | None


class GroupType(StrEnum):
    """CLASSIC is a group of Kafka's classic protocol, or a simple group. CONSUMER is KIP-848."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupState(StrEnum):
    """The states of a group, under Kafka's names."""

    UNKNOWN = "unknown"
    EMPTY = "empty"
    PREPARING_REBALANCE = "preparing-rebalance"
    COMPLETING_REBALANCE = "completing-rebalance"
    STABLE = "stable"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"
    DEAD = "dead"


@attrs.frozen(kw_only=True)
class GroupListing:
    """A group in a list. `protocol_type` is empty for a group that never had members.

    `details` is None unless the list was asked for them.
    `lag_verdict` is OK, WARN or ERR; None for a group without a verdict (no commit since the start
    of the server reported an end offset), and unless the list was asked for verdicts. With them
    comes `lag`: the sum over the partitions with a known end; None if no end is known, and from a
    server before 0.2.
    """

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    retention: Retention = None
    details: "ListedDetails | None" = None
    lag_verdict: "LagVerdict | None" = None
    lag: int | None = None


@attrs.frozen(kw_only=True)
class GroupMember:
    """A member, as its record in the log describes it."""

    member_id: str
    instance_id: str
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


class LagVerdict(StrEnum):
    """Burrow's verdicts on a consumer's lag. A group is OK, WARN or ERR, a partition never ERR."""

    OK = "OK"
    WARN = "WARN"
    ERR = "ERR"
    STOP = "STOP"
    STALL = "STALL"
    REWIND = "REWIND"


@attrs.frozen(kw_only=True)
class ListedDetails:
    """Further details of a listed group. `lease_holder` is empty if no one holds its lease."""

    offset_count: int
    member_count: int
    lease_holder: str


@attrs.frozen(kw_only=True)
class Group:
    """A group with all details. For a KIP-848 group, `generation` is its epoch.

    `state_time` is None if it was not recorded. `lease` is the newest lease, which may have
    expired. `lag_verdict` is OK, WARN or ERR; None if no commit reported an end offset.
    """

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    protocol: str
    generation: int
    leader_id: str
    members: tuple[GroupMember, ...]
    log_partition: int
    offset_count: int
    state_time: datetime | None
    retention: Retention = None
    lease: Lease | None = None
    lag_verdict: LagVerdict | None = None


@attrs.frozen(kw_only=True)
class PartitionLag:
    """How far a group is behind the end offset that its commits last reported for a partition."""

    offset: int
    end_offset: int
    lag: int
    verdict: LagVerdict | None


@attrs.frozen(kw_only=True)
class GroupListPage:
    """A page of a list of groups. `next_page_token` is empty on the last page.

    A page may be empty and not be the last one. `unreachable_log_partitions`: damaged log
    partitions of the server that answered, whose groups are missing.
    """

    groups: tuple[GroupListing, ...]
    next_page_token: str
    unreachable_log_partitions: tuple[int, ...]


@attrs.frozen(kw_only=True)
class GroupOffsetsPage:
    """A group, and a page of its offsets, sorted by topic and partition, with their lags.

    `next_page_token` is empty on the last page. Offsets whose end is unknown have no lag.
    """

    group: Group
    offsets: Mapping[TopicPartition, CommittedOffset]
    lags: Mapping[TopicPartition, PartitionLag]
    next_page_token: str


@attrs.frozen(kw_only=True)
class Coordinator:
    """The server that owns a group, and the log partition that holds it.

    `address` is the server's address for clients.
    """

    log_partition: int
    node_id: str
    address: str


class ServerState(StrEnum):
    """The state of the server. Only in state SERVING does it answer with offsets."""

    UNKNOWN = "unknown"
    LOADING = "loading"
    SERVING = "serving"
    DRAINING = "draining"


@attrs.frozen(kw_only=True)
class ExpirySuspension:
    """The reason why offsets do not expire now.

    `end_time` is None if a setting must be changed first.

    `end_time` is by the server's time. `remaining` is the time left until then. It is None if
    `end_time` is None, or if the server is an older version.
    """

    reason: str
    end_time: datetime | None
    remaining: timedelta | None = None


@attrs.frozen(kw_only=True)
class DiskRoom:
    """A file system: its size, and what may still be written to it."""

    total_bytes: int
    free_bytes: int


@attrs.frozen(kw_only=True)
class ServerInfo:
    """The server, with counts over everything it has loaded.

    `expiry_suspension` is None if offsets expire normally, or if the server is loading.
    `settings_problem`: the settings that cannot be read, if any. Until they are repaired, the
    server expires, cleans and deletes nothing by the settings in force.
    `clock_offset`: how far the machine's clock is ahead of the server's time. The server's time
    slowly follows a clock that was set. Zero while the two agree to a second.
    `problems`: other problems of the whole server, as text for users.
    `other_addresses`: the other nodes of its cluster, which are not in the counts.
    `cluster_id` is empty for a single server.
    `flush_count`: flushes since the node started; None while it loads, and of an older server.
    `stopped_cleanly`: whether the last use of the data folder before this start had ended cleanly.
    None: the folder was new, it is not open yet, or the server is of an older version.
    `disk`: the file system of the data folder. None while it loads, and of an older server.
    `counts_hidden`: the counts of groups and offsets are left out (0), because the caller has no
    right to describe the cluster.
    """

    version: str
    folder_id: str
    node_id: str
    start_time: datetime
    log_partitions: int
    state: ServerState
    group_count: int
    offset_count: int
    unknown_record_count: int
    undecodable_record_count: int
    quarantined_partitions: tuple[int, ...]
    expiry_suspension: ExpirySuspension | None = None
    settings_problem: str = ""
    clock_offset: timedelta = timedelta(0)
    problems: tuple[str, ...] = ()
    other_addresses: tuple[str, ...] = ()
    cluster_id: str = ""
    flush_count: int | None = None
    stopped_cleanly: bool | None = None
    disk: DiskRoom | None = None
    counts_hidden: bool = False

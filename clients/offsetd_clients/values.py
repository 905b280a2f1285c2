"""What goes into the client's calls and comes out of them: plain values, no protobuf."""

import operator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, SupportsIndex, TypeAlias

import attrs


def whole(value: SupportsIndex) -> int:
    """`value`, be it numpy's, as Python's own; TypeError for what is no whole number."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{value!r} is no whole number") from None


def check_text(_value: object, attribute: Any, text: object) -> None:
    """TypeError for what is no text: protobuf would take bytes, too."""
    if not isinstance(text, str):
        raise TypeError(f"{attribute.name}: {text!r} is no text")


def _whole_or_none(value: SupportsIndex | None) -> int | None:
    return None if value is None else whole(value)


@attrs.frozen(order=True)
class TopicPartition:
    """One partition of a topic, or of whatever a consumer has positions in."""

    topic: str
    partition: int = attrs.field(converter=whole)

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


@attrs.frozen(order=True)
class Revision:
    """The position of a record in the offsets log. Those of one group grow with every write."""

    log_partition: int
    log_offset: int


@attrs.frozen
class OffsetToCommit:
    """The position to go on from, and what must hold for it to be stored.

    At most one of `expected_offset` (the stored offset is this), `expected_revision` (the stored
    offset was written at this log offset) and `must_not_exist`; if it does not hold, the whole
    commit raises `OffsetConflict`. `monotonic`: raise `OffsetNotMonotonic` rather than go back.
    `end_offset` is the source's end; the server keeps it in memory only.
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

    `expire_time` is when it expires if nobody commits it again; None: it does not, as things are.
    `end_offset` None: never reported, or forgotten by a restart of the server.
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
    """What was there and is deleted; `revision` None: nothing was, or it was only validated."""

    partitions: tuple[TopicPartition, ...]
    revision: Revision | None


@attrs.frozen(kw_only=True)
class DeletedGroup:
    """How many offsets went with the group; `revision` None: it was only validated."""

    offset_count: int
    revision: Revision | None


Retention: TypeAlias = timedelta | Literal["never"] | None
"""How long a group's offsets are kept; None: as the server says."""


@attrs.frozen(kw_only=True)
class Lease:
    """A group's lease. The times are the server's wall clock's, None if the lease is over."""

    holder: str
    epoch: int
    ttl: timedelta
    grant_time: datetime | None
    expire_time: datetime | None


class GroupType(StrEnum):
    """CLASSIC is Kafka's first protocol and simple groups; CONSUMER is KIP-848."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupState(StrEnum):
    """Kafka's names for what a group is doing."""

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
    """A group as it is listed. `protocol_type` is empty for a group that never had members."""

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    retention: Retention = None


@attrs.frozen(kw_only=True)
class GroupMember:
    """A member as the log has it."""

    member_id: str
    instance_id: str
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@attrs.frozen(kw_only=True)
class Group:
    """A group in full. `generation` is a KIP-848 group's epoch; `state_time` None: not recorded.

    `lease` is the newest one, which may have expired.
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


@attrs.frozen(kw_only=True)
class Coordinator:
    """Who owns a group, and where the log keeps it; `address` is as clients reach the server."""

    log_partition: int
    node_id: str
    address: str


class ServerState(StrEnum):
    """SERVING is the only state in which offsets are answered."""

    UNKNOWN = "unknown"
    LOADING = "loading"
    SERVING = "serving"
    DRAINING = "draining"


@attrs.frozen(kw_only=True)
class ExpirySuspension:
    """What keeps offsets from expiring; `end_time` None: until somebody changes a setting.

    `end_time` is by the server's time. `remaining` is how long it still is; None as `end_time` is,
    and from older servers.
    """

    reason: str
    end_time: datetime | None
    remaining: timedelta | None = None


@attrs.frozen(kw_only=True)
class ServerInfo:
    """The server, and counts over all that it has loaded.

    `expiry_suspension` None: offsets expire as they should, or the server loads.
    `settings_problem` says which settings cannot be read, if so: nothing expires, is cleaned or
    taken away by those that are in force. `clock_offset`: how far the machine's clock is ahead of
    the server's time, which follows it slowly once it was set; zero while they agree to a second.
    `problems`: what else is wrong with the whole server, in words for people.
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

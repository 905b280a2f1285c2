"""The settings of a consumer, with their defaults and bounds."""

import math
from typing import Any, Literal

import attrs

from offsetd_clients.assignors import ASSIGNORS
from offsetd_clients.consumer.source import Start

SECONDS_MAX = 86_400.0
STARTS = ("earliest", "latest", "error")


def _check_seconds(_settings: object, attribute: Any, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and 0 < value <= SECONDS_MAX):
        raise ValueError(
            f"{attribute.name} = {value}: must be seconds, above 0 and at most {SECONDS_MAX:.0f}"
        )


def _check_assignors(_settings: object, _attribute: object, names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown or not names:
        raise ValueError(f"assignors = {names}: must be one or more of {', '.join(ASSIGNORS)}")


@attrs.frozen(kw_only=True)
class LeaseTerms:
    """The terms of a consumer that works alone: it holds the group's lease, and does not join.

    `holder` names the consumer. A consumer with the same name takes the lease over, so two running
    consumers must not share a name. Others wait until the lease is released, or until `ttl_s`
    seconds have passed without a renewal.
    """

    holder: str
    ttl_s: float = attrs.field(default=30.0, validator=_check_seconds)


@attrs.frozen(kw_only=True)
class ConsumerSettings:
    """The settings of a consumer. Durations are in seconds, finite and positive.

    `start`: the start of a partition without a committed offset.

    `acknowledgement`: with "implicit", a request for the next item marks all items before it as
    processed. With "explicit", only `ack` and `commit` of an item mark it.

    `auto_commit_interval_s`: processed items are committed this often, when partitions are revoked,
    and at the end. If it is None, only `commit` commits them.

    `assignors`: the assignors that this member offers, the preferred one first. The group uses one
    that all its members offer. `instance_id` makes a static member, which may come back within its
    session.

    `session_timeout_s`: a member without a sign of life for this long is replaced. It sends one
    every `heartbeat_interval_s`.
    `poll_interval_s_max`: if no items are requested for this long, the caller may hang, so the
    consumer leaves the group. A rebalance waits for it for the same time.

    `source_interval_s`: the interval of requests to the source for its partitions, and for the ends
    of those that are read.
    `idle_wait_s`: the pause after no partition had items to read.
    `read_items_max`: the largest number of items read from a partition at a time.

    `lease`: work alone, under a lease, instead of as a member among others.
    """

    start: Start = "earliest"
    acknowledgement: Literal["implicit", "explicit"] = attrs.field(
        default="implicit", validator=attrs.validators.in_(("implicit", "explicit"))
    )
    auto_commit_interval_s: float | None = attrs.field(default=5.0, validator=_check_seconds)
    assignors: tuple[str, ...] = attrs.field(
        default=("sticky",), converter=tuple, validator=_check_assignors
    )
    instance_id: str | None = None
    client_id: str = "offsetd"
    session_timeout_s: float = attrs.field(default=45.0, validator=_check_seconds)
    heartbeat_interval_s: float = attrs.field(default=3.0, validator=_check_seconds)
    poll_interval_s_max: float = attrs.field(default=300.0, validator=_check_seconds)
    source_interval_s: float = attrs.field(default=5.0, validator=_check_seconds)
    idle_wait_s: float = attrs.field(default=0.1, validator=_check_seconds)
    read_items_max: int = attrs.field(default=500, validator=attrs.validators.ge(1))
    lease: LeaseTerms | None = None

    def __attrs_post_init__(self) -> None:
        if not callable(self.start) and self.start not in STARTS:
            raise ValueError(f"start = {self.start!r}: must be a function, or of {STARTS}")
        if self.heartbeat_interval_s * 2 > self.session_timeout_s:
            raise ValueError("heartbeat_interval_s: at most half of session_timeout_s")
        if self.lease is not None and self.instance_id is not None:
            raise ValueError("lease, instance_id: a consumer has one or the other")

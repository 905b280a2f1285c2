"""The rules of expiry for offsets and groups, pure. Kafka's rules are those of KIP-211's code.

An offset expires once it has not been committed for its retention and, if its group has a protocol,
the group has been empty for that long. Kafka 4.1.1 counts only from the time at which such a group
became empty, so an offset committed a second ago can expire. That is `ExpiryBase.KAFKA`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
from offsetd_storage.offsets_topic.group_listing import GroupState, GroupType
from offsetd_storage.offsets_topic.schemas.protocol_metadata import CONSUMER_PROTOCOL_TYPE

from offsetd_coordinator.kernels.columns import (
    BASE_LATEST,
    BASE_REPLACED,
    NEVER,
    NO_TIME,
    TIME_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class ExpiryBase(enum.Enum):
    """The time from which retention counts, in an empty group that has a protocol."""

    LATEST = "latest"  # The later of the commit and the time when the group became empty.
    KAFKA = "kafka"  # The time when the group became empty, even for later commits.


@attrs.frozen(kw_only=True)
class ExpiryTerms:
    """The terms from the server's settings. If `retention_ms` is None, offsets never expire."""

    retention_ms: int | None
    base: ExpiryBase = ExpiryBase.LATEST
    warning_ms: int = 0


@attrs.frozen(kw_only=True)
class ExpiringGroup:
    """The properties of a group that expiry depends on. `became_empty_ms` is None if unknown.

    `is_subscribed` says whether a member reads a topic, as far as subscriptions can be read.
    """

    type: GroupType = GroupType.CLASSIC
    protocol_type: str = ""  # Empty for a simple group.
    state: GroupState = GroupState.EMPTY
    became_empty_ms: int | None = None
    is_subscribed: Callable[[str], bool] | None = None
    retention_ms: int | None = None  # The group's own; None for the server's.
    never_expires: bool = False  # Set for the group.
    has_lease: bool = False  # A writer holds a lease now.


class GroupRule(NamedTuple):
    """The rule for the offsets of one group, as numbers for the kernels.

    `retention_ms` may be `NEVER`: an offset's own expire timestamp still counts, unless
    `holds_all`. `empty_ms` is `NO_TIME` if the rule does not use it; `base` is one of `BASE_…`.
    """

    holds_all: bool
    retention_ms: int
    empty_ms: int
    base: int
    is_subscribed: Callable[[str], bool] | None
    may_go: bool
    """Whether the group itself expires after its last offset."""


NO_RULE: Final = GroupRule(
    holds_all=True,
    retention_ms=NEVER,
    empty_ms=NO_TIME,
    base=BASE_LATEST,
    is_subscribed=None,
    may_go=False,
)
"""Nothing expires."""


def rule_of(group: ExpiringGroup, terms: ExpiryTerms) -> GroupRule:
    """The rule for a group."""
    retention_ms = terms.retention_ms if group.retention_ms is None else group.retention_ms
    is_empty = group.state is GroupState.EMPTY
    is_held = group.never_expires or group.has_lease
    empty_ms, base = NO_TIME, BASE_LATEST if terms.base is ExpiryBase.LATEST else BASE_REPLACED
    if group.type is GroupType.CLASSIC and group.protocol_type and is_empty:
        became_empty_ms = group.became_empty_ms
        empty_ms = NO_TIME if became_empty_ms is None else max(became_empty_ms, NO_TIME)
    return GroupRule(
        holds_all=is_held or not _expires_in_state(group),
        retention_ms=NEVER if retention_ms is None else retention_ms,
        empty_ms=empty_ms,
        base=base,
        is_subscribed=None if is_empty else group.is_subscribed,
        may_go=is_empty and not is_held,
    )


def _expires_in_state(group: ExpiringGroup) -> bool:
    """Whether unused offsets of a group in this state may expire."""
    if group.state in (GroupState.UNSPECIFIED, GroupState.DEAD):
        return False
    if group.type is GroupType.CONSUMER or group.state is GroupState.EMPTY:
        return True
    # The topics of members are unknown during a rebalance, and always with other protocols.
    return group.state is GroupState.STABLE and group.protocol_type in ("", CONSUMER_PROTOCOL_TYPE)


def plain_rule(terms: ExpiryTerms) -> GroupRule:
    """The rule for a group that has only offsets, and no records of its own."""
    return rule_of(_PLAIN, terms)


_PLAIN: Final = ExpiringGroup()


def expires_at_ms(
    rule: GroupRule, *, commit_timestamp_ms: int, expire_timestamp_ms: int
) -> int | None:
    """The time at which an offset expires if nothing changes; None for never.

    The offset is expired at exactly this millisecond, because Kafka compares with `>=`.
    Subscriptions are not checked here.
    """
    if rule.holds_all:
        return None
    if expire_timestamp_ms > NO_TIME:
        return expire_timestamp_ms
    if rule.retention_ms >= TIME_MAX:
        return None
    base_ms = max(commit_timestamp_ms, rule.empty_ms)
    if rule.base == BASE_REPLACED:
        # As in Kafka, an offset without a commit time counts as committed in 1970.
        base_ms = commit_timestamp_ms if rule.empty_ms == NO_TIME else rule.empty_ms
        base_ms = max(base_ms, 0)
    return None if base_ms <= NO_TIME or base_ms >= TIME_MAX else base_ms + rule.retention_ms

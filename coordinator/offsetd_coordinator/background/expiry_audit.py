"""Audit events about expiry: one event for each group in a slice of expired offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.kernels.columns import NEVER, NO_TIME
from offsetd_coordinator.kernels.wire.field_length_limits import TOPIC_UNITS_MAX
from offsetd_coordinator.rfc3339 import rfc3339

if TYPE_CHECKING:
    from offsetd_coordinator.expiry.expiry_guard import Held
    from offsetd_coordinator.expiry.expiry_sweep import ExpiredGroup

EXPIRE_METHOD: Final = "ExpireOffsets"
SUSPEND_METHOD: Final = "SuspendExpiry"
TOPICS_MAX: Final = 20
NAME_UNITS_MAX: Final = 1024


def expired_event(expired: ExpiredGroup, now_ms: int) -> AuditEvent:
    """The event for a group's expired offsets, with the rule by which they expired.

    If they have many topics, the event names the topics with the most offsets.
    """
    topics = sorted(expired.topics, key=lambda each: (-each[1], each[0]))
    rule = expired.rule
    what: dict[str, Any] = {
        "group": _shortened(expired.group_id, NAME_UNITS_MAX),
        "offset_count": expired.offset_count,
        "topics": {
            _shortened(topic, TOPIC_UNITS_MAX): count for topic, count in topics[:TOPICS_MAX]
        },
        "group_deleted": expired.is_gone,
    }
    if len(topics) > TOPICS_MAX:
        what["more_topics"] = len(topics) - TOPICS_MAX
    if rule.retention_ms != NEVER:
        what["retention_ms"] = rule.retention_ms
    if rule.empty_ms > NO_TIME:
        what["empty_since"] = rfc3339(rule.empty_ms)
    if not expired.offset_count:
        reason = "the group is empty, and has no offsets"
    else:
        reason = "not committed for the retention, or beyond the time given with the commit"
    return AuditEvent(
        time_ms=now_ms, method=EXPIRE_METHOD, topic=None, what=what, reason=reason, peer=""
    )


def suspended_event(jump_ms: int, held: Held | None, now_ms: int) -> AuditEvent:
    """The event for a jump of the wall clock, after which nothing expires for some time."""
    what: dict[str, Any] = {"clock_jump_ms": jump_ms}
    if held is not None and held.remaining_ms is not None:
        what["suspended_ms"] = held.remaining_ms
    return AuditEvent(
        time_ms=now_ms,
        method=SUSPEND_METHOD,
        topic=None,
        what=what,
        reason="the wall clock was set",
    )


def _shortened(name: bytes, units_max: int) -> str:
    text = name.decode(errors="replace")
    return text if len(text) <= units_max else text[:units_max] + "…"

"""Stored offsets as messages, one by one: a page of a group has few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.expiry.expiry_rules import expires_at_ms
from offsetd_coordinator.messages.timestamps import set_time

if TYPE_CHECKING:
    from offsetd_coordinator.committed_offsets import CommittedOffset
    from offsetd_coordinator.expiry.expiry_rules import GroupRule


def committed_offset(
    stored: CommittedOffset, rule: GroupRule
) -> offset_service_pb2.CommittedOffset:
    """A stored offset that expires by `rule`, as `kernels.fetch_answer` writes it."""
    message = offset_service_pb2.CommittedOffset(
        topic=stored.topic.decode(),
        partition=stored.partition,
        offset=stored.offset,
        leader_epoch=stored.leader_epoch if stored.leader_epoch >= 0 else None,
        metadata=stored.metadata.decode(),
        revision=stored.revision,
        end_offset=stored.end_offset if stored.end_offset >= 0 else None,
    )
    set_time(message.commit_time, stored.commit_timestamp_ms)
    if (expires_ms := _expires_ms(stored, rule)) is not None:
        set_time(message.expire_time, expires_ms)
    return message


def _expires_ms(stored: CommittedOffset, rule: GroupRule) -> int | None:
    """When it expires, as far as that is known: not while a member reads its topic."""
    if rule.is_subscribed is not None and rule.is_subscribed(stored.topic.decode()):
        return None
    return expires_at_ms(
        rule,
        commit_timestamp_ms=stored.commit_timestamp_ms,
        expire_timestamp_ms=stored.expire_timestamp_ms,
    )

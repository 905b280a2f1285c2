"""Expiry for tests: whole sweeps over a shard, and what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.expiry.expiry_rules import ExpiryTerms
from offsetd_coordinator.expiry.expiry_sweep import ShardRules, SliceLimits
from offsetd_coordinator.requests import ExpireOffsets
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetd_coordinator.expiry.expiry_sweep import Slice
    from offsetd_coordinator.requests import Decision
    from offsetd_coordinator.shard.shard import Shard

RETENTION_MS = 1000
TERMS = ExpiryTerms(retention_ms=RETENTION_MS)


def slices(
    shard: Shard,
    now_ms: int,
    terms: ExpiryTerms = TERMS,
    *,
    limits: SliceLimits | None = None,
    has_lease: Callable[[bytes], bool] = lambda _: False,
    write: Callable[[Decision], object] | None = None,
) -> Iterator[tuple[Slice, Decision | None]]:
    """Sweeps a shard, and writes each slice before the next is looked for.

    `write` has to apply it; without, it is applied to the shard alone.
    """
    rules = ShardRules(shard._state, terms, live_state=shard.live_group_state, has_lease=has_lease)
    sweep = rules.sweep(limits or SliceLimits())
    while not sweep.is_done:
        found = sweep.next_slice(now_ms)
        decision = None
        if found.ends.size:
            decision = shard.decide_expiry(ExpireOffsets(keys=found.keys, ends=found.ends), now_ms)
            (write or shard.apply)(decision)
        yield found, decision


def batches_of(decision: Decision) -> list[bytes]:
    """What a decision writes."""
    return [batch for batch, _ in decision.batches]


def classic_value(*topics: str, protocol_type: str = "consumer", state_ms: int = -1) -> bytes:
    """A classic group's record: with a member that reads these topics, or (none) empty."""
    members = ()
    if topics:
        subscription = b"\0\0" + len(topics).to_bytes(4)
        for topic in topics:
            subscription += len(topic).to_bytes(2) + topic.encode()
        members = (
            GroupMember(
                member_id="m",
                client_id="c",
                client_host="h",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                subscription=subscription + b"\xff\xff\xff\xff",
                assignment=b"",
            ),
        )
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=3,
        protocol="range" if members else None,
        leader="m" if members else None,
        current_state_timestamp_ms=state_ms,
        members=members,
    ).encode()

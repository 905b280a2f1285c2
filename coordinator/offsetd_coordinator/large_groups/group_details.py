"""The details of each group in a list of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from offsetd_coordinator.cooperative_scheduling import Turns
    from offsetd_coordinator.runtime.runtime import Runtime

_ITEMS_PER_GROUP = 4


class GroupDetails(NamedTuple):
    """Details of a group. `lease_holder` is empty if nobody holds its lease."""

    offset_count: int
    member_count: int
    lease_holder: str


async def details_of(runtime: Runtime, group_id: bytes, turns: Turns) -> GroupDetails:
    """The details of a group; zeros for one that was deleted meanwhile.

    Raises the errors of `submit` if the log partition is no longer served here.
    """
    await turns.spend(_ITEMS_PER_GROUP)
    _, shard = runtime.shard_of(group_id)
    status = shard.leases.status(group_id, runtime.moment())
    return GroupDetails(
        offset_count=shard.offsets.count(group_id),
        member_count=shard.member_count(group_id),
        lease_holder=status.lease.holder if status is not None and status.is_held else "",
    )

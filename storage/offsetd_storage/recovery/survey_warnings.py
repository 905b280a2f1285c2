"""Warnings and notes on logs that may have missing segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.recovery.quarantine import Claim
from offsetd_storage.recovery.segment_comparison import NOTHING_KNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_storage.recovery.partition_plan import PartitionPlan
    from offsetd_storage.recovery.quarantine import Damage
    from offsetd_storage.topic_partition import TopicPartition


def listing_warnings(plans: Mapping[TopicPartition, PartitionPlan]) -> tuple[str, ...]:
    """A warning for each log that may have missing segments, because its list is not usable."""
    return tuple(
        f"{each}: {SEGMENT_LIST_NAME}: {plan.known.problem}; it is not known whether segments of it"
        " are missing, and those that are there are listed again"
        for each, plan in plans.items()
        if plan.known.problem is not None
    )


def listing_notes(plans: Mapping[TopicPartition, PartitionPlan]) -> tuple[str, ...]:
    """A note on logs that get their first list of segments, or the first one after a broker."""
    names = [
        str(each)
        for each, plan in plans.items()
        if plan.known == NOTHING_KNOWN and len(plan.scans) > 1
    ]
    if not names:
        return ()
    more = f", and {len(names) - 1} more" if len(names) > 1 else ""
    note = (
        f"the segments of {names[0]}{more} are listed from now on, as they were found: no list was"
        " there, or a broker has had the folder since"
    )
    return (note,)


def start_warnings(
    plans: Mapping[TopicPartition, PartitionPlan],
    claims: Mapping[TopicPartition, Claim | Damage],
) -> tuple[str, ...]:
    """A warning for each log whose oldest segments are gone.

    An operator removed them, or the disk lost them.
    """
    warnings = []
    for each, plan in plans.items():
        claim, first = claims.get(each), min(plan.scans, default=None)
        if first is None or not isinstance(claim, Claim) or plan.known.listed is not None:
            # If the log has a segment list, recovery has compared it with the segments. Then only
            # segments below the log's start can be missing, and these were deleted.
            continue
        if claim.point.log_start_offset < first:
            warnings.append(
                f"{each}: the segments from offset {claim.point.log_start_offset} to {first - 1}"
                f" are not there any more; the log starts at {first}"
            )
    return tuple(warnings)

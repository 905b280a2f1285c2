"""Compares a plan, or the present state of its source, with the stored offsets."""

from collections.abc import Iterator, Sequence

from offsetd_clients import OffsetdError
from offsetd_clients.migration.differences import Difference, deletions, differences
from offsetd_clients.migration.outcomes import MigrationStopped, in_chunks
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.target import Target
from offsetd_clients.migration.values import FoundGroup, PlannedGroup, Problem, Source


def compared(
    plan: Plan, target: Target, source: Source | None = None, *, check_bounds: bool = False
) -> Iterator[tuple[PlannedGroup, list[Difference], tuple[Problem, ...]]]:
    """Yields each group of the plan, or its present state in `source`, with its differences.

    With `source`, the differences include offsets that the source no longer has, in groups that it
    can read without problems. Raises MigrationStopped, SourceFailed.
    """
    for chunk in in_chunks(plan.groups()):
        found = _found(chunk, source)
        try:
            stored = target.stored(group.group_id for group in chunk)
            partitions = [each.topic_partition for group in found for each in group.offsets]
            bounds = target.bounds(list(dict.fromkeys(partitions))) if check_bounds else {}
        except OffsetdError as error:
            raise MigrationStopped("the server does not say what is stored") from error
        for group, now in zip(chunk, found, strict=True):
            chosen = [each for each in now.offsets if plan.selection.takes_topic(each.topic)]
            of_group = stored[group.group_id]
            differing = differences(group.group_id, chosen, of_group, bounds)
            if source is not None and not now.problems:
                differing += deletions(group.group_id, group.offsets, chosen, of_group)
            yield group, differing, now.problems


def _found(chunk: list[PlannedGroup], source: Source | None) -> Sequence[PlannedGroup | FoundGroup]:
    if source is None:
        return chunk
    return list(source.read_again([group.source_group_id for group in chunk]))

"""The outcomes of a step, group by group."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from enum import StrEnum
from typing import Final, Protocol, TypeVar

import attrs

from offsetd_clients.migration.values import MigrationError, PlannedGroup

_LISTED_MAX: Final = 3


class Outcome(StrEnum):
    """The outcome of a step for one group."""

    MIGRATED = "migrated"
    WOULD_MIGRATE = "would-migrate"  # The outcome in a dry run.
    ALREADY = "already"  # There was nothing left to do.
    CUT_OVER = "cut-over"
    WOULD_CUT_OVER = "would-cut-over"
    ROLLED_BACK = "rolled-back"
    WOULD_ROLL_BACK = "would-roll-back"
    UNDONE = "undone"
    WOULD_UNDO = "would-undo"
    REFUSED = "refused"


@attrs.frozen(kw_only=True)
class GroupOutcome:
    """`offset_count` counts offsets that were or would be written. `problem` explains a refusal."""

    group_id: str
    source_group_id: str
    outcome: Outcome
    offset_count: int = 0
    problem: str = ""


def outcome_of(
    group: PlannedGroup, outcome: Outcome, *, count: int = 0, problem: str = ""
) -> GroupOutcome:
    """The outcome of a group of a plan."""
    return GroupOutcome(
        group_id=group.group_id,
        source_group_id=group.source_group_id,
        outcome=outcome,
        offset_count=count,
        problem=problem,
    )


def counted(things: Sized, name: str) -> str:
    """A count as text for users: `1 owner`, `2 owners`."""
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def listed(texts: Sequence[str]) -> str:
    """The first few texts, as text for users."""
    more = len(texts) - _LISTED_MAX
    return "; ".join(texts[:_LISTED_MAX]) + (f"; and {more} more" if more > 0 else "")


class MigrationStopped(MigrationError):
    """A problem that affects all groups. The run stopped there. `__cause__` has the reason."""


class _HasOffsets(Protocol):
    @property
    def offsets(self) -> Sized: ...


SomeGroup = TypeVar("SomeGroup", bound=_HasOffsets)

CHUNK_GROUPS_MAX = 64
_CHUNK_OFFSETS_MAX = 5000


def in_chunks(
    groups: Iterable[SomeGroup], *, offsets_max: int = _CHUNK_OFFSETS_MAX
) -> Iterator[list[SomeGroup]]:
    """Splits groups into chunks that fit into one call and into memory."""
    chunk: list[SomeGroup] = []
    count = 0
    for group in groups:
        chunk.append(group)
        count += len(group.offsets)
        if len(chunk) == CHUNK_GROUPS_MAX or count >= offsets_max:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk

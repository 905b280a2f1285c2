"""The rows of a plan, and their groups. No I/O.

A plan is flat, with a row for each offset, so that it is easy to query; the rows of a group are
together. A group without offsets has one row, without a topic, which says why it is refused.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
from offsetd_clients.migration.differences import Difference, State
from offsetd_clients.migration.target import Put
from offsetd_clients.migration.values import (
    FoundOffset,
    PlannedGroup,
    Problem,
    ProblemKind,
    without_doubles,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from offsetd_clients.migration.selection import Selection

MEMBERS: Final = "members"
"""The kind of a problem: the group had members when a folder was copied."""
MEMBERS_UNKNOWN: Final = "members-unknown"
_MEMBERS_THEN: Final = ("members, when it was copied",)

FOUND_NAMES: Final = (
    *("group", "source_group", "topic", "partition", "offset", "leader_epoch", "metadata"),
    *("commit_time_ms", "problem_kind", "problem", "place"),
)
"""The columns of found rows, sorted by the first two. A row has an offset or a problem."""

PLAN_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("group", "source_group", "topic")),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("metadata", pa.string()),
        pa.field("commit_time_ms", pa.int64()),
        pa.field("state", pa.string()),
        pa.field("stored_offset", pa.int64()),
        pa.field("expected_revision", pa.int64()),
        pa.field("sets_retention", pa.bool_()),
        pa.field("refusal", pa.string()),
    ]
)
"""`state` and `stored_offset`: the state of the server's offset when the plan was made.

`expected_revision`: the revision of the offset that was stored then; null if none was. `refusal`:
the reason why the group is not moved; empty if it is moved.
"""

OUTCOME_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("group", "source_group", "outcome")),
        pa.field("offsets", pa.int64()),
        pa.field("problem", pa.string()),
    ]
)
DIFFERENCE_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("group", "topic")),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("stored_offset", pa.int64()),
        pa.field("state", pa.string()),
    ]
)


@attrs.frozen(kw_only=True)
class PlannedOffset:
    """An offset of a plan. `expected_revision` is None if none was stored."""

    found: FoundOffset
    state: State
    expected_revision: int | None


@attrs.frozen(kw_only=True)
class GroupPlan:
    """A group of a plan, from its rows."""

    group_id: str
    source_group_id: str
    refusal: str
    sets_retention: bool
    planned: tuple[PlannedOffset, ...]

    @property
    def offsets(self) -> tuple[FoundOffset, ...]:
        """The source's offsets."""
        return tuple(each.found for each in self.planned)

    @property
    def puts(self) -> list[Put]:
        """The offsets to write, each with its expected revision."""
        return [
            Put(each.found, each.expected_revision)
            for each in self.planned
            if each.state is not State.EQUAL
        ]


def found_groups(
    rows: Iterable[dict[str, Any]], selection: Selection, *, has_members: bool
) -> Iterator[PlannedGroup]:
    """The groups of rows of `FOUND_NAMES`, with their problems.

    `has_members`: whether the source knows which groups had members.
    """
    for group_id, of_group in groupby(rows, key=lambda row: row["group"]):
        mine = [each for each in of_group if selection.takes(each["source_group"])]
        if mine:
            planned = _planned(group_id, mine, selection, has_members=has_members)
            if planned.offsets or planned.problems:
                yield planned


def _planned(
    group_id: str, rows: Sequence[dict[str, Any]], selection: Selection, *, has_members: bool
) -> PlannedGroup:
    sources = list(dict.fromkeys(each["source_group"] for each in rows))
    told = [each for each in rows if each["problem_kind"] in (MEMBERS, MEMBERS_UNKNOWN)]
    problems = [_problem(each) for each in rows if each["problem_kind"] and each not in told]
    offsets, doubles = without_doubles(
        [
            _found(each)
            for each in rows
            if not each["problem_kind"] and selection.takes_topic(each["topic"])
        ],
        sources[0],
    )
    if len(sources) > 1:
        named = ", ".join(map(repr, sources))
        problems.append(
            Problem(
                kind=ProblemKind.DUPLICATE,
                where=group_id,
                detail=f"{named} are all moved to {group_id!r}",
                group_id=sources[0],
            )
        )
    owners: tuple[str, ...] | None = ()
    if has_members and told:
        is_unknown = any(each["problem_kind"] == MEMBERS_UNKNOWN for each in told)
        owners = None if is_unknown else _MEMBERS_THEN
    return PlannedGroup(
        source_group_id=sources[0],
        group_id=group_id,
        offsets=offsets,
        owners=owners,
        problems=(*problems, *doubles),
    )


def _problem(row: dict[str, Any]) -> Problem:
    return Problem(
        kind=ProblemKind(row["problem_kind"]),
        where=row["place"] or row["source_group"],
        detail=row["problem"],
        group_id=row["source_group"],
    )


def _found(row: dict[str, Any]) -> FoundOffset:
    return FoundOffset(
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        leader_epoch=row["leader_epoch"],
        metadata=row["metadata"] or "",
        commit_time_ms=row["commit_time_ms"],
    )


def plan_rows(
    group: PlannedGroup, found: Sequence[Difference], *, refusal: str, sets_retention: bool
) -> list[dict[str, Any]]:
    """The rows of a group for a plan."""
    of_group = {
        "group": group.group_id,
        "source_group": group.source_group_id,
        "sets_retention": sets_retention,
        "refusal": refusal,
    }
    if not found:
        return [of_group]
    return [
        of_group
        | {
            "topic": each.found.topic,
            "partition": each.found.partition,
            "offset": each.found.offset,
            "leader_epoch": each.found.leader_epoch,
            "metadata": each.found.metadata,
            "commit_time_ms": each.found.commit_time_ms,
            "state": str(each.state),
            "stored_offset": None if each.stored is None else each.stored.offset,
            "expected_revision": None if each.stored is None else each.stored.revision,
        }
        for each in found
    ]


def planned_groups(rows: Iterable[dict[str, Any]]) -> Iterator[GroupPlan]:
    """The groups of a plan's rows."""
    for group_id, of_group in groupby(rows, key=lambda row: row["group"]):
        mine = list(of_group)
        yield GroupPlan(
            group_id=group_id,
            source_group_id=mine[0]["source_group"],
            refusal=mine[0]["refusal"],
            sets_retention=mine[0]["sets_retention"],
            planned=tuple(
                PlannedOffset(
                    found=_found(each),
                    state=State(each["state"]),
                    expected_revision=each["expected_revision"],
                )
                for each in mine
                if each["topic"] is not None
            ),
        )


def difference_row(difference: Difference) -> dict[str, Any]:
    """A row of `DIFFERENCE_SCHEMA`."""
    return {
        "group": difference.group_id,
        "topic": difference.found.topic,
        "partition": difference.found.partition,
        "offset": difference.found.offset,
        "stored_offset": None if difference.stored is None else difference.stored.offset,
        "state": str(difference.state),
    }

"""The plan: a file that lists, group by group, the offsets to move.

It has lines of JSON: a header, one line for each group or problem, a summary, and at the end the
SHA-256 of all lines before. It is written as a whole or not at all, and read group by group.
`docs/formats/migration-plan.md` describes the format.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs

from offsetd_clients.migration.durable_files import read_lines, write_whole
from offsetd_clients.migration.migration_journal import make_room
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.values import (
    FoundGroup,
    FoundOffset,
    MigrationError,
    PlannedGroup,
    Problem,
    ProblemKind,
    Source,
    SourceDescription,
    without_doubles,
)

FORMAT = "offsetd-migration-plan"
VERSION = 1
_OFFSET_FIELDS = tuple(field.name for field in attrs.fields(FoundOffset))

# A function that is called with the number of groups done, and the name of the last one.
PlanReport = Callable[[int, str], None]


class BadPlan(MigrationError):
    """The file is not a whole plan of a known version. The text says in which place."""


@attrs.frozen(kw_only=True)
class PlanSummary:
    """The totals of a plan. `problem_count` includes the problems of groups."""

    group_count: int
    offset_count: int
    problem_count: int


@attrs.frozen(kw_only=True)
class Plan:
    """A plan with a valid checksum. Its groups are read from the file on demand."""

    path: Path
    plan_id: str
    created_ms: int
    source: SourceDescription
    selection: Selection
    summary: PlanSummary

    @classmethod
    def open(cls, path: Path) -> "Plan":
        """Reads the file once, to its end. Raises BadPlan, OSError."""
        header = _read_header(path)
        summary = _checked_summary(path)
        try:
            return cls(
                path=path,
                plan_id=header["plan_id"],
                created_ms=header["created_ms"],
                source=SourceDescription(**header["source"]),
                selection=_selection_of(header["selection"]),
                summary=summary,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise BadPlan(f"{path}: line 1 is not a header: {error}") from None

    def groups(self) -> Iterator[PlannedGroup]:
        """Yields each group, in the order of the source. Raises BadPlan, OSError."""
        for number, line in _lines_within(self.path):
            if "group" in line:
                yield _group_of(line["group"], self.path, number)

    def problems(self) -> Iterator[Problem]:
        """Yields all problems, including those of groups."""
        for number, line in _lines_within(self.path):
            if "problem" in line:
                yield _problem_of(line["problem"])
            else:
                yield from _group_of(line["group"], self.path, number).problems


def write_plan(
    path: Path,
    source: Source,
    selection: Selection,
    *,
    created_ms: int,
    seen: Callable[[PlannedGroup | Problem], None] = lambda _: None,
) -> PlanSummary:
    """Writes the plan of a source. `seen` is called with the value of each line.

    The file is written as a whole, durably, or not at all. Raises SourceFailed, OSError. Raises
    PlanBegun or JournalBusy, before the source is read, if it would replace a plan with completed
    steps.
    """
    make_room(path)
    return write_whole(
        path, lambda write: _write(_Hashed(write), source, selection, created_ms, seen)
    )


def planned_groups(source: Source, selection: Selection) -> Iterator[PlannedGroup | Problem]:
    """Plans the migration of the source's groups, and yields the plan. It writes no file."""
    targets: dict[str, str] = {}
    for found in source.groups():
        if isinstance(found, Problem):
            if found.group_id is None or selection.takes(found.group_id):
                yield found
        elif selection.takes(found.group_id):
            yield from _planned(found, selection, targets)


def _planned(
    found: FoundGroup, selection: Selection, targets: dict[str, str]
) -> Iterator[PlannedGroup | Problem]:
    group_id = selection.target(found.group_id)
    if group_id in targets:
        yield Problem(
            kind=ProblemKind.DUPLICATE,
            where=found.group_id,
            detail=f"{targets[group_id]!r} is moved to {group_id!r}, too",
            group_id=found.group_id,
        )
        return
    chosen = [each for each in found.offsets if selection.takes_topic(each.topic)]
    offsets, doubles = without_doubles(chosen, found.group_id)
    problems = (*found.problems, *doubles)
    if not offsets and not problems and found.offsets:
        return  # All offsets of the group belong to other topics.
    targets[group_id] = found.group_id
    yield PlannedGroup(
        source_group_id=found.group_id,
        group_id=group_id,
        offsets=offsets,
        owners=found.owners,
        problems=problems,
    )


class _Hashed:
    """Writes lines, and hashes them."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._hash = hashlib.sha256()

    def line(self, document: dict[str, Any]) -> None:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        content = text.encode() + b"\n"
        self._hash.update(content)
        self._write(content)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _write(
    out: _Hashed,
    source: Source,
    selection: Selection,
    created_ms: int,
    seen: Callable[[PlannedGroup | Problem], None],
) -> PlanSummary:
    chosen = attrs.asdict(selection, filter=lambda field, _: not field.name.startswith("_"))
    out.line(
        {
            "format": FORMAT,
            "version": VERSION,
            "plan_id": str(uuid4()),
            "created_ms": created_ms,
            "source": attrs.asdict(source.description),
            "selection": chosen,
        }
    )
    groups = offsets = problems = 0
    for each in planned_groups(source, selection):
        if isinstance(each, Problem):
            problems += 1
            out.line({"problem": attrs.asdict(each)})
        else:
            groups += 1
            offsets += len(each.offsets)
            problems += len(each.problems)
            out.line({"group": _group_document(each)})
        seen(each)
    summary = PlanSummary(group_count=groups, offset_count=offsets, problem_count=problems)
    out.line({"end": attrs.asdict(summary)})
    out.line({"sha256": out.digest})
    return summary


def _group_document(group: PlannedGroup) -> dict[str, Any]:
    offsets = [[getattr(each, name) for name in _OFFSET_FIELDS] for each in group.offsets]
    return {
        "source_group": group.source_group_id,
        "group": group.group_id,
        "owners": group.owners,
        "problems": [attrs.asdict(each) for each in group.problems],
        "offsets": offsets,
    }


def _group_of(document: dict[str, Any], path: Path, number: int) -> PlannedGroup:
    try:
        owners = document["owners"]
        return PlannedGroup(
            source_group_id=document["source_group"],
            group_id=document["group"],
            owners=None if owners is None else tuple(owners),
            problems=tuple(map(_problem_of, document["problems"])),
            offsets=tuple(
                FoundOffset(**dict(zip(_OFFSET_FIELDS, row, strict=True)))
                for row in document["offsets"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadPlan(f"{path}: line {number} is not a group: {error}") from None


def _selection_of(document: dict[str, Any]) -> Selection:
    renames = dict(document.pop("renames"))
    return Selection(
        **{name: tuple(patterns) for name, patterns in document.items()}, renames=renames
    )


def _problem_of(document: dict[str, Any]) -> Problem:
    return Problem(**{**document, "kind": ProblemKind(document["kind"])})


def _read_header(path: Path) -> dict[str, Any]:
    header = _parsed(next(read_lines(path), b""), path, 1)
    if header.get("format") != FORMAT:
        raise BadPlan(f"{path}: line 1 does not say that this is a plan")
    if header.get("version") != VERSION:
        raise BadPlan(f"{path}: a plan of version {header.get('version')}; {VERSION} is known")
    return header


def _checked_summary(path: Path) -> PlanSummary:
    digest = hashlib.sha256()
    summary, last, number = b"", b"", 0
    for line in read_lines(path):
        digest.update(last)
        summary, last, number = last, line, number + 1
    if "sha256" not in (seal := _parsed(last, path, number)):
        raise BadPlan(f"{path}: line {number} is not its seal: the file was cut")
    if seal["sha256"] != digest.hexdigest():
        raise BadPlan(f"{path}: the checksum does not match the lines: it was changed")
    return PlanSummary(**_parsed(summary, path, number - 1)["end"])


def _lines_within(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(read_lines(path), 1):
        document = _parsed(line, path, number)
        if "end" in document:
            return
        if number > 1:
            yield number, document


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        raise BadPlan(f"{path}: line {number} is not JSON") from None
    if not isinstance(document, dict):
        raise BadPlan(f"{path}: line {number} is not a JSON object")
    return document

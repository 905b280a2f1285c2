"""What every layout is, and what several have in common."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import attrs

from offsetd_clients.migration.values import (
    OFFSET_MAX,
    PARTITION_MAX,
    FoundGroup,
    FoundOffset,
    MigrationError,
    Problem,
    ProblemKind,
)
from offsetd_clients.migration.zookeeper.tree import Node, Tree


class BadLayout(MigrationError):
    """An option that the layout needs, or cannot do with."""


class CannotWriteBack(MigrationError):
    """An offset that this layout has no place for, or cannot change."""


@attrs.frozen(kw_only=True)
class LayoutOptions:
    """`root` empty: where the layout usually is. `topic`, `group`: for layouts that do not say.

    `is_last`: values are what was processed last, and not what comes next. The patterns are of the
    layout `regex`.
    """

    root: str = ""
    topic: str = ""
    group: str = ""
    is_last: bool = False
    path_pattern: str = ""
    value_pattern: str = ""


class Layout(Protocol):
    """Where the groups are, and what their znodes say."""

    def group_ids(self, tree: Tree) -> Iterator[str | Problem]:
        """Each group once. Raises SourceFailed."""

    def read(self, tree: Tree, group_ids: Sequence[str]) -> list[FoundGroup]:
        """Those groups, in this order, in as few rounds as it takes. Raises SourceFailed."""

    def place_of(self, group_id: str, topic: str, partition: int) -> str | None:
        """Where an offset would be that is not there; None: the layout cannot tell."""

    def rendered(self, value: bytes, found: FoundOffset, offset: int) -> bytes:
        """The znode's value with another offset in the place of `found`'s; `value` b"": a new one.

        Raises CannotWriteBack.
        """


class OnlyWrittenPlaces:
    """For layouts whose znodes have more than an offset, or where nothing tells their paths."""

    def place_of(self, group_id: str, topic: str, partition: int) -> str | None:
        """None: an offset that has no znode gets none."""
        del group_id, topic, partition
        return None


_DECIMAL = re.compile(rb"[0-9]{1,19}")


def parse_offset(value: bytes, *, is_last: bool = False) -> int:
    """The position to go on from, of decimal text. Raises ValueError, which says what is wrong."""
    text = value.strip()
    if not _DECIMAL.fullmatch(text):
        shown = value[:40].decode(errors="backslashreplace")
        raise ValueError(f"{shown!r} is no offset")
    return checked_offset(int(text) + is_last)


def checked_offset(offset: Any) -> int:
    """`offset`, if it is one. Raises ValueError."""
    if type(offset) is not int or not 0 <= offset <= OFFSET_MAX:
        raise ValueError(f"{offset!r} is no offset")
    return offset


def parse_partition(text: str) -> int:
    """Of a znode's name. Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or int(text) > PARTITION_MAX:
        raise ValueError(f"{text!r} is no partition")
    return int(text)


def json_of(value: bytes) -> dict[str, Any]:
    """The object that a znode has. Raises ValueError."""
    try:
        document = json.loads(value)
    except ValueError:
        shown = value[:40].decode(errors="backslashreplace")
        raise ValueError(f"{shown!r} is no JSON") from None
    if not isinstance(document, dict):
        raise ValueError("no JSON object")  # noqa: TRY004  # it is the znode's value that is wrong
    return document


def rendered_json(document: dict[str, Any]) -> bytes:
    """As Storm's JSON is: without spaces."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def found_at(path: str, node: Node, topic: str, partition: int, offset: int) -> FoundOffset:
    """An offset, with what its znode says of when it was written."""
    return FoundOffset(
        topic=topic,
        partition=partition,
        offset=offset,
        commit_time_ms=node.mtime_ms,
        place=path,
        version=node.version,
        order=node.mzxid,
    )


@attrs.define
class GroupReading:
    """What has been found of a group so far."""

    group_id: str
    offsets: list[FoundOffset] = attrs.field(factory=list)
    owners: list[str] | None = attrs.field(factory=list)
    problems: list[Problem] = attrs.field(factory=list)

    def note(self, problem: Problem) -> None:
        """Something that cannot be read."""
        self.problems.append(attrs.evolve(problem, group_id=self.group_id))

    def bad(self, kind: ProblemKind, where: str, detail: object) -> None:
        """Something that makes no sense."""
        self.problems.append(
            Problem(kind=kind, where=where, detail=str(detail), group_id=self.group_id)
        )

    def found(self) -> FoundGroup:
        """All of it."""
        return FoundGroup(
            group_id=self.group_id,
            offsets=tuple(sorted(self.offsets, key=lambda each: (each.topic, each.partition))),
            owners=None if self.owners is None else tuple(self.owners),
            problems=tuple(self.problems),
        )

"""The interface of all layouts, and their common parts."""

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
    """The layout needs an option, or cannot use one."""


class CannotWriteBack(MigrationError):
    """The layout has no place for an offset, or cannot change it."""


@attrs.frozen(kw_only=True)
class LayoutOptions:
    """The options of layouts.

    `root`: if it is empty, the usual root of the layout is used.
    `topic`, `group`: for layouts that do not name them.
    `is_last`: values are the last processed offsets, not the next ones. The patterns are those of
    the layout `regex`.
    """

    root: str = ""
    topic: str = ""
    group: str = ""
    is_last: bool = False
    path_pattern: str = ""
    value_pattern: str = ""


class Layout(Protocol):
    """Knows the places of the groups, and the meaning of their znodes."""

    def group_ids(self, tree: Tree) -> Iterator[str | Problem]:
        """Yields each group once. Raises SourceFailed."""

    def read(self, tree: Tree, group_ids: Sequence[str]) -> list[FoundGroup]:
        """Reads those groups, in this order, in as few rounds as possible. Raises SourceFailed."""

    def forget(self) -> None:
        """Drops all cached content of the tree.

        Later reads see the tree's content at that time, with new znodes.
        """

    def place_of(self, group_id: str, topic: str, partition: int) -> str | None:
        """The path of an offset that does not exist yet; None if the layout cannot know it."""

    def rendered(self, value: bytes, found: FoundOffset, offset: int) -> bytes:
        """The znode's value with `offset` in place of `found`'s. `value` is b"" for a new znode.

        Raises CannotWriteBack.
        """


class HoldsNothing:
    """A base for layouts that search for a group's znodes at each read."""

    def forget(self) -> None:
        """Does nothing: nothing is cached."""


class OnlyWrittenPlaces(HoldsNothing):
    """A base for layouts that cannot derive a znode's path, or its other content."""

    def place_of(self, group_id: str, topic: str, partition: int) -> str | None:
        """Returns None: no new znode can be created."""
        del group_id, topic, partition
        return None


_DECIMAL = re.compile(rb"[0-9]{1,19}")


def parse_offset(value: bytes, *, is_last: bool = False) -> int:
    """Parses the next offset from decimal text. Raises ValueError, which names the problem."""
    text = value.strip()
    if not _DECIMAL.fullmatch(text):
        shown = value[:40].decode(errors="backslashreplace")
        raise ValueError(f"{shown!r} is not an offset")
    return checked_offset(int(text) + is_last)


def value_of(offset: int, *, is_last: bool) -> int:
    """The value of a znode for the next offset `offset`. Raises CannotWriteBack."""
    if is_last and offset == 0:
        raise CannotWriteBack("it begins at offset 0, and no last offset says that")
    return offset - is_last


def checked_offset(offset: Any) -> int:
    """Returns `offset` if it is valid. Raises ValueError."""
    if type(offset) is not int or not 0 <= offset <= OFFSET_MAX:
        raise ValueError(f"{offset!r} is not an offset")
    return offset


def parse_partition(text: str) -> int:
    """The partition in a znode's name. Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or int(text) > PARTITION_MAX:
        raise ValueError(f"{text!r} is not a partition")
    return int(text)


def json_of(value: bytes) -> dict[str, Any]:
    """The JSON object in a znode. Raises ValueError."""
    try:
        document = json.loads(value)
    except ValueError:
        shown = value[:40].decode(errors="backslashreplace")
        raise ValueError(f"{shown!r} is not JSON") from None
    if not isinstance(document, dict):
        raise ValueError("no JSON object")  # noqa: TRY004  # it is the znode's value that is wrong
    return document


def rendered_json(document: dict[str, Any]) -> bytes:
    """JSON without spaces, as Storm writes it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def found_at(path: str, node: Node, topic: str, partition: int, offset: int) -> FoundOffset:
    """An offset, with the times and versions of its znode."""
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
    """Collects the offsets and problems found in a group."""

    group_id: str
    offsets: list[FoundOffset] = attrs.field(factory=list)
    owners: list[str] | None = attrs.field(factory=list)
    problems: list[Problem] = attrs.field(factory=list)

    def note(self, problem: Problem) -> None:
        """Adds a problem."""
        self.problems.append(attrs.evolve(problem, group_id=self.group_id))

    def bad(self, kind: ProblemKind, where: str, detail: object) -> None:
        """Adds a problem with invalid content."""
        self.problems.append(
            Problem(kind=kind, where=where, detail=str(detail), group_id=self.group_id)
        )

    def found(self) -> FoundGroup:
        """The finished group."""
        return FoundGroup(
            group_id=self.group_id,
            offsets=tuple(sorted(self.offsets, key=lambda each: (each.topic, each.partition))),
            owners=None if self.owners is None else tuple(self.owners),
            problems=tuple(self.problems),
        )

"""Any layout with one offset in a znode: a pattern of paths gives group, topic and partition.

It walks the whole tree below the root, and ignores paths that do not match. Matching paths are held
until `forget`: a cutover walks the tree again for each group that it marks.
"""

import re
from collections.abc import Iterator, Sequence

import attrs

from offsetd_clients.migration.values import FoundGroup, FoundOffset, Problem, ProblemKind
from offsetd_clients.migration.zookeeper.layouts.layout import (
    BadLayout,
    CannotWriteBack,
    GroupReading,
    LayoutOptions,
    OnlyWrittenPlaces,
    checked_offset,
    found_at,
    parse_partition,
    value_of,
)
from offsetd_clients.migration.zookeeper.tree import Node, Tree, joined

_NAMES = {"group", "topic", "partition"}


@attrs.frozen
class _Place:
    path: str
    topic: str
    partition: str


@attrs.define
class _Walk:
    """The matching paths by group, and the paths that could not be listed."""

    places: dict[str, list[_Place]] = attrs.field(factory=dict)
    problems: list[Problem] = attrs.field(factory=list)


class Regex(OnlyWrittenPlaces):
    """`path_pattern` must match the whole path below the chroot.

    It has the named groups `group`, `topic` and `partition`; options may give the first two
    instead. `value_pattern` has the named group `offset`; without it the whole value is the offset.
    """

    def __init__(self, options: LayoutOptions) -> None:
        if not options.path_pattern:
            raise BadLayout("the layout regex needs --path-pattern")
        try:
            self._pattern = re.compile(options.path_pattern)
            self._value = re.compile(options.value_pattern or r"\s*(?P<offset>[0-9]{1,19})\s*")
        except re.error as error:
            raise BadLayout(f"{error.pattern!r} is not a regular expression: {error}") from None
        told = {"group": options.group, "topic": options.topic}
        missing = _NAMES - self._pattern.groupindex.keys() - {n for n, v in told.items() if v}
        if missing:
            raise BadLayout(f"--path-pattern has no (?P<{min(missing)}>…)")
        if "offset" not in self._value.groupindex:
            raise BadLayout("--value-pattern has no (?P<offset>…)")
        self._told = {name: value for name, value in told.items() if value}
        self._root = joined(options.root)
        self._is_last = options.is_last
        self._walk: _Walk | None = None

    def group_ids(self, tree: Tree) -> Iterator[str | Problem]:
        self._walk = walk = self._walked(tree)
        yield from walk.places
        yield from walk.problems

    def forget(self) -> None:
        """Drops the walk: the next read walks the tree again."""
        self._walk = None

    def read(self, tree: Tree, group_ids: Sequence[str]) -> list[FoundGroup]:
        self._walk = self._walk or self._walked(tree)
        chosen = {group_id: self._walk.places.get(group_id, []) for group_id in group_ids}
        nodes = tree.nodes(place.path for found in chosen.values() for place in found)
        groups = []
        for group_id, found in chosen.items():
            reading = GroupReading(group_id, owners=None)
            if not found:
                reading.bad(ProblemKind.VANISHED, group_id, "no path is of this group any more")
            for place in found:
                node = nodes[place.path]
                if isinstance(node, Problem):
                    reading.note(node)
                    continue
                try:
                    reading.offsets.append(self._parsed(place, node))
                except ValueError as error:
                    reading.bad(ProblemKind.BAD_VALUE, place.path, error)
            groups.append(reading.found())
        return groups

    def rendered(self, value: bytes, found: FoundOffset, offset: int) -> bytes:
        del found  # Each offset is the only one in its znode.
        text = value.decode()
        match = self._value.fullmatch(text)
        if not value or match is None:
            raise CannotWriteBack("a pattern does not say how a new value looks")
        start, end = match.span("offset")
        number = value_of(offset, is_last=self._is_last)
        return f"{text[:start]}{number}{text[end:]}".encode()

    def _walked(self, tree: Tree) -> "_Walk":
        walk = _Walk()
        level = [self._root]
        while level:
            below = []
            for path, names in tree.children(level).items():
                if isinstance(names, Problem):
                    walk.problems.append(names)
                    continue
                below += [joined(path, name) for name in names]
            level = []
            for path in below:
                match = self._pattern.fullmatch(path)
                if match is not None:  # A child of an offset is not an offset.
                    named = {**self._told, **match.groupdict()}
                    place = _Place(path, named["topic"], named["partition"])
                    walk.places.setdefault(named["group"], []).append(place)
                elif path != "/zookeeper":
                    level.append(path)
        return walk

    def _parsed(self, place: _Place, node: Node) -> FoundOffset:
        text = node.value.decode(errors="backslashreplace")
        match = self._value.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:40]!r} does not match the pattern of values")
        if not match["offset"].isascii() or not match["offset"].isdigit():
            raise ValueError(f"{match['offset']!r} is not an offset")
        offset = checked_offset(int(match["offset"]) + self._is_last)
        partition = parse_partition(place.partition)
        return found_at(place.path, node, place.topic, partition, offset)

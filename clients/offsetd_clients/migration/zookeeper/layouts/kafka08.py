"""Kafka's consumers of 0.8 to 0.11, and programs that follow them.

Such programs are Spark recipes, Secor, Flume and Flink.

`<root>/<group>/offsets/<topic>/<partition>` holds the next offset as decimal text. A live consumer
has a child in `<root>/<group>/ids`, and in `owners/<topic>/<partition>`. Kafka 0.7 named the znodes
`<broker>-<partition>`, and stored positions in bytes: those are refused.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from offsetd_clients.migration.values import FoundGroup, FoundOffset, Problem, ProblemKind
from offsetd_clients.migration.zookeeper.layouts.layout import (
    GroupReading,
    HoldsNothing,
    LayoutOptions,
    found_at,
    parse_offset,
    parse_partition,
    value_of,
)
from offsetd_clients.migration.zookeeper.tree import Tree, is_absent, joined, listed

_BYTE_POSITION = re.compile(r"[0-9]+-[0-9]+")
BYTES_DETAIL = "a position in bytes, of Kafka 0.7: no message offset can be made of it"


class Kafka08(HoldsNothing):
    """`root` may differ from `/consumers`, as in Spark recipes."""

    def __init__(self, options: LayoutOptions) -> None:
        self._root = joined(options.root or "/consumers")
        self._is_last = options.is_last

    def group_ids(self, tree: Tree) -> Iterator[str | Problem]:
        yield from listed(tree, self._root)

    def read(self, tree: Tree, group_ids: Sequence[str]) -> list[FoundGroup]:
        readings = [GroupReading(group_id) for group_id in group_ids]
        topics = self._topics(tree, readings)
        partitions = tree.children(path for paths in topics for path in paths)
        places: list[list[tuple[str, str, int]]] = []
        for reading, paths in zip(readings, topics, strict=True):
            places.append(list(_partition_places(reading, paths, partitions)))
        nodes = tree.nodes(path for found in places for path, _, _ in found)
        for reading, found in zip(readings, places, strict=True):
            for path, topic, partition in found:
                node = nodes[path]
                if isinstance(node, Problem):
                    reading.note(node)
                    continue
                try:
                    offset = parse_offset(node.value, is_last=self._is_last)
                except ValueError as error:
                    reading.bad(ProblemKind.BAD_VALUE, path, error)
                else:
                    reading.offsets.append(found_at(path, node, topic, partition, offset))
        self._find_owners(tree, readings)
        return [reading.found() for reading in readings]

    def place_of(self, group_id: str, topic: str, partition: int) -> str | None:
        return joined(self._root, group_id, "offsets", topic, str(partition))

    def rendered(self, value: bytes, found: FoundOffset, offset: int) -> bytes:
        del value, found  # The value consists of the offset only.
        return str(value_of(offset, is_last=self._is_last)).encode()

    def _topics(self, tree: Tree, readings: Iterable[GroupReading]) -> list[list[str]]:
        """The paths of each group's topics.

        A group without offsets has none; that is not an error.
        """
        folders = [joined(self._root, each.group_id, "offsets") for each in readings]
        found = tree.children(folders)
        topics = []
        for reading, folder in zip(readings, folders, strict=True):
            names = found[folder]
            if isinstance(names, Problem):
                if not is_absent(names):
                    reading.note(names)
                names = []
            topics.append([f"{folder}/{name}" for name in names])
        return topics

    def _find_owners(self, tree: Tree, readings: Sequence[GroupReading]) -> None:
        folders = {
            each.group_id: [joined(self._root, each.group_id, kind) for kind in ("ids", "owners")]
            for each in readings
        }
        found = tree.children(path for paths in folders.values() for path in paths)
        owned: dict[str, list[str]] = {}
        for reading in readings:
            ids, owners = (found[path] for path in folders[reading.group_id])
            for answer in (ids, owners):
                if isinstance(answer, Problem) and not is_absent(answer):
                    reading.note(answer)
                    reading.owners = None
            if reading.owners is not None and not isinstance(ids, Problem):
                reading.owners += ids
            if not isinstance(owners, Problem):
                folder = folders[reading.group_id][1]
                owned[reading.group_id] = [f"{folder}/{topic}" for topic in owners]
        partitions = tree.children(path for paths in owned.values() for path in paths)
        for reading in readings:
            for path in owned.get(reading.group_id, ()):
                answer = partitions[path]
                if not isinstance(answer, Problem):
                    names = [f"{path.rpartition('/')[2]}:{each}" for each in answer]
                    if reading.owners is not None and not reading.owners:
                        reading.owners += names
                elif not is_absent(answer):
                    reading.note(answer)
                    reading.owners = None


def _partition_places(
    reading: GroupReading, paths: Iterable[str], partitions: dict[str, list[str] | Problem]
) -> Iterator[tuple[str, str, int]]:
    for path in paths:
        names = partitions[path]
        if isinstance(names, Problem):
            reading.note(names)
            continue
        for name in names:
            place = f"{path}/{name}"
            if _BYTE_POSITION.fullmatch(name):
                reading.bad(ProblemKind.BYTE_POSITION, place, BYTES_DETAIL)
                continue
            try:
                partition = parse_partition(name)
            except ValueError as error:
                reading.bad(ProblemKind.BAD_NAME, place, error)
            else:
                yield place, path.rpartition("/")[2], partition

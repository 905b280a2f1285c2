"""Storm's KafkaSpout: `<root>/<spout id>/[<topic>/]partition_<n>`, JSON with the next offset.

The spout's id is the group. ZooKeeper does not show whether the topology runs.
"""

import re
from collections.abc import Iterator, Sequence

from offsetd_clients.migration.values import FoundGroup, FoundOffset, Problem, ProblemKind
from offsetd_clients.migration.zookeeper.layouts.layout import (
    BadLayout,
    CannotWriteBack,
    GroupReading,
    LayoutOptions,
    OnlyWrittenPlaces,
    checked_offset,
    found_at,
    json_of,
    rendered_json,
)
from offsetd_clients.migration.zookeeper.tree import Node, Tree, joined, listed

Place = tuple[str, str, int]
"""The path of a znode, the topic that its folder names (or none), and the partition."""

_PARTITION = re.compile(r"partition_([0-9]{1,10})")


class Storm(OnlyWrittenPlaces):
    """`root` is the spouts' `zkRoot`. `is_last` is not allowed: values are the next offsets."""

    def __init__(self, options: LayoutOptions) -> None:
        if not options.root:
            raise BadLayout("the layout storm needs --root: the spout's zkRoot")
        if options.is_last:
            raise BadLayout("the layout storm has next offsets")
        self._root = joined(options.root)
        self._topic = options.topic

    def group_ids(self, tree: Tree) -> Iterator[str | Problem]:
        yield from listed(tree, self._root)

    def read(self, tree: Tree, group_ids: Sequence[str]) -> list[FoundGroup]:
        readings = [GroupReading(group_id, owners=None) for group_id in group_ids]
        places = partition_places(tree, readings, self._root, _PARTITION)
        nodes = tree.nodes(path for found in places for path, _, _ in found)
        for reading, found in zip(readings, places, strict=True):
            for path, folder_topic, partition in found:
                node = nodes[path]
                if isinstance(node, Problem):
                    reading.note(node)
                    continue
                try:
                    reading.offsets.append(self._parsed(path, node, folder_topic, partition))
                except ValueError as error:
                    reading.bad(ProblemKind.BAD_VALUE, path, error)
        return [reading.found() for reading in readings]

    def rendered(self, value: bytes, found: FoundOffset, offset: int) -> bytes:
        del found  # Each offset is the only one in its znode.
        if not value:
            raise CannotWriteBack("a new znode would have to name the topology and the broker")
        return rendered_json({**json_of(value), "offset": offset})

    def _parsed(self, path: str, node: Node, folder_topic: str, partition: int) -> FoundOffset:
        document = json_of(node.value)
        topic = topic_in(document, folder_topic or self._topic)
        if document.get("partition", partition) != partition:
            raise ValueError(f"it says partition {document['partition']!r}")
        return found_at(path, node, topic, partition, checked_offset(document.get("offset")))


def topic_in(document: dict[str, object], topic: str) -> str:
    """The topic in the value. Raises ValueError if it is not the topic of the path."""
    named = document.get("topic", topic)
    if not isinstance(named, str) or not named:
        raise ValueError("it names no topic: say --topic")
    if topic and named != topic:
        raise ValueError(f"it says topic {named!r}")
    return named


def partition_places(
    tree: Tree, readings: Sequence[GroupReading], root: str, pattern: re.Pattern[str]
) -> list[list[Place]]:
    """The partitions of each group, in its own folder and in the folders of topics below it."""
    folders = [joined(root, each.group_id) for each in readings]
    names = tree.children(folders)
    places: list[list[Place]] = []
    topics: list[list[str]] = []
    for reading, folder in zip(readings, folders, strict=True):
        found = _or_problem(reading, names[folder])
        places.append(_matching(folder, "", found, pattern))
        topics.append([f"{folder}/{name}" for name in found if not pattern.fullmatch(name)])
    names = tree.children(path for paths in topics for path in paths)
    for reading, own, paths in zip(readings, places, topics, strict=True):
        for path in paths:
            found = _or_problem(reading, names[path])
            strange = [name for name in found if not pattern.fullmatch(name)]
            if strange or names[path] == []:
                named = f"{path}/{strange[0]}" if strange else path
                reading.bad(ProblemKind.BAD_NAME, named, "it is not a partition")
            own.extend(_matching(path, path.rpartition("/")[2], found, pattern))
    return places


def _or_problem(reading: GroupReading, names: list[str] | Problem) -> list[str]:
    if isinstance(names, Problem):
        reading.note(names)
        return []
    return names


def _matching(
    folder: str, topic: str, names: Sequence[str], pattern: re.Pattern[str]
) -> list[Place]:
    matches = ((name, pattern.fullmatch(name)) for name in names)
    return [
        (f"{folder}/{name}", topic, int(match[1])) for name, match in matches if match is not None
    ]

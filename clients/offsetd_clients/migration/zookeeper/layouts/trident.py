"""Storm's Trident spouts: `<root>/<tx id>/user/[<topic>/]<partition>/<transaction>`, JSON.

Among the finished transactions, the highest one counts, with its `nextOffset`. Storm will emit the
transaction in `coordinator/currtx` and the later ones again: the first of them counts, with its
`offset`. So records may be replayed, but are never skipped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from offsetd_clients.migration.zookeeper.layouts.storm import partition_places, topic_in
from offsetd_clients.migration.zookeeper.tree import Node, Tree, is_absent, joined, listed

_PARTITION = re.compile(r"(?:partition_)?([0-9]{1,10})")
_UNFINISHED = "the transaction is not finished: it would be emitted again as it was"


class Trident(OnlyWrittenPlaces):
    """`root` is `transactional.zookeeper.root`. The transaction id is the group."""

    def __init__(self, options: LayoutOptions) -> None:
        if options.is_last:
            raise BadLayout("the layout trident has next offsets")
        self._root = joined(options.root or "/transactional")
        self._topic = options.topic

    def group_ids(self, tree: Tree) -> Iterator[str | Problem]:
        yield from listed(tree, self._root)

    def read(self, tree: Tree, group_ids: Sequence[str]) -> list[FoundGroup]:
        readings = [GroupReading(group_id, owners=None) for group_id in group_ids]
        users = [GroupReading(f"{each.group_id}/user") for each in readings]
        places = partition_places(tree, users, self._root, _PARTITION)
        for reading, user in zip(readings, users, strict=True):
            for problem in user.problems:
                reading.note(problem)
        current = current_transactions(tree, self._root, readings)
        folders = [[path for path, _, _ in each] for each in places]
        counting = counting_transactions(tree, readings, folders, current)
        nodes = tree.nodes(path for found in counting for path in found.values())
        for reading, found, named in zip(readings, counting, places, strict=True):
            for folder, topic, partition in named:
                path = found.get(folder)
                node = None if path is None else nodes[path]
                if path is None or node is None:
                    continue
                if isinstance(node, Problem):
                    reading.note(node)
                    continue
                try:
                    is_open = is_unfinished(path, current[reading.group_id])
                    reading.offsets.append(self._parsed(path, node, topic, partition, is_open))
                except ValueError as error:
                    reading.bad(ProblemKind.BAD_VALUE, path, error)
        return [reading.found() for reading in readings]

    def rendered(self, value: bytes, found: FoundOffset, offset: int) -> bytes:
        if not value:
            raise CannotWriteBack("a new znode would have to belong to a transaction")
        document = json_of(value)
        if document.get("nextOffset") != found.offset:
            raise CannotWriteBack(_UNFINISHED)
        return rendered_json({**document, "nextOffset": offset})

    def _parsed(
        self, path: str, node: Node, folder_topic: str, partition: int, is_open: bool
    ) -> FoundOffset:
        document = json_of(node.value)
        topic = topic_in(document, folder_topic or self._topic)
        if document.get("partition", partition) != partition:
            raise ValueError(f"it says partition {document['partition']!r}")
        offset = checked_offset(document.get("offset" if is_open else "nextOffset"))
        return found_at(path, node, topic, partition, offset)


def counting_transactions(
    tree: Tree,
    readings: Sequence[GroupReading],
    folders: Sequence[Sequence[str]],
    current: Mapping[str, int | None],
) -> list[dict[str, str]]:
    """The path of the transaction that counts, in each folder of each group."""
    found = tree.children(folder for named in folders for folder in named)
    newest: list[dict[str, str]] = []
    for reading, named in zip(readings, folders, strict=True):
        paths = {}
        for folder in named:
            names = found[folder]
            if isinstance(names, Problem):
                reading.note(names)
                continue
            numbers = [name for name in names if name.isascii() and name.isdigit()]
            for name in sorted(set(names) - set(numbers)):
                reading.bad(ProblemKind.BAD_NAME, f"{folder}/{name}", "it is not a transaction")
            unfinished = [
                name for name in numbers if is_unfinished(name, current[reading.group_id])
            ]
            if numbers:
                name = min(unfinished, key=int) if unfinished else max(numbers, key=int)
                paths[folder] = f"{folder}/{name}"
        newest.append(paths)
    return newest


def current_transactions(
    tree: Tree, root: str, readings: Sequence[GroupReading]
) -> Mapping[str, int | None]:
    """The current transaction of each group; None if there is none.

    If it cannot be read, none of the group's offsets can be trusted: this is noted as a problem.
    """
    paths = {each.group_id: joined(root, each.group_id, "coordinator/currtx") for each in readings}
    nodes = tree.nodes(paths.values())
    current: dict[str, int | None] = {}
    for reading in readings:
        path = paths[reading.group_id]
        node = nodes[path]
        current[reading.group_id] = None
        if isinstance(node, Problem):
            if not is_absent(node):
                reading.note(node)
        elif node.value.strip().isdigit():
            current[reading.group_id] = int(node.value)
        else:
            shown: Any = node.value[:40].decode(errors="backslashreplace")
            reading.bad(ProblemKind.BAD_VALUE, path, f"{shown!r} is not a transaction")
    return current


def is_unfinished(path: str, current: int | None) -> bool:
    """Whether the transaction at a path may be emitted again."""
    return current is not None and int(path.rpartition("/")[2]) >= current

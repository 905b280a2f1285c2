"""Trident spouts of storm-kafka-client: `<root>/<tx id>/user/<topic>@<partition>/<transaction>`.

The value is JSON with `firstOffset` and `lastOffset`, both of emitted records. The next offset is
the one after `lastOffset`. For the first transaction that is not finished, it is `firstOffset`.
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
    value_of,
)
from offsetd_clients.migration.zookeeper.layouts.trident import (
    counting_transactions,
    current_transactions,
    is_unfinished,
)
from offsetd_clients.migration.zookeeper.tree import Node, Tree, joined, listed

_NAME = re.compile(r"(.+)@([0-9]{1,10})")


class TridentClient(OnlyWrittenPlaces):
    """`root` is `transactional.zookeeper.root`. The transaction id is the group."""

    def __init__(self, options: LayoutOptions) -> None:
        if options.is_last:
            raise BadLayout("the layout trident-client says which offsets are the last")
        self._root = joined(options.root or "/transactional")

    def group_ids(self, tree: Tree) -> Iterator[str | Problem]:
        yield from listed(tree, self._root)

    def read(self, tree: Tree, group_ids: Sequence[str]) -> list[FoundGroup]:
        readings = [GroupReading(group_id, owners=None) for group_id in group_ids]
        folders = self._folders(tree, readings)
        current = current_transactions(tree, self._root, readings)
        counting = counting_transactions(tree, readings, folders, current)
        nodes = tree.nodes(path for found in counting for path in found.values())
        for reading, found in zip(readings, counting, strict=True):
            for folder, path in found.items():
                node = nodes[path]
                if isinstance(node, Problem):
                    reading.note(node)
                    continue
                try:
                    is_open = is_unfinished(path, current[reading.group_id])
                    reading.offsets.append(_parsed(folder, path, node, is_open))
                except ValueError as error:
                    reading.bad(ProblemKind.BAD_VALUE, path, error)
        return [reading.found() for reading in readings]

    def rendered(self, value: bytes, found: FoundOffset, offset: int) -> bytes:
        if not value:
            raise CannotWriteBack("a new znode would have to belong to a transaction")
        document = json_of(value)
        if document.get("lastOffset") != found.offset - 1:
            raise CannotWriteBack(
                "the transaction is not finished: it would be emitted again as it was"
            )
        return rendered_json({**document, "lastOffset": value_of(offset, is_last=True)})

    def _folders(self, tree: Tree, readings: Sequence[GroupReading]) -> list[list[str]]:
        users = [joined(self._root, each.group_id, "user") for each in readings]
        found = tree.children(users)
        folders = []
        for reading, user in zip(readings, users, strict=True):
            names = found[user]
            if isinstance(names, Problem):
                reading.note(names)
                names = []
            for name in names:
                if not _NAME.fullmatch(name):
                    reading.bad(ProblemKind.BAD_NAME, f"{user}/{name}", "it is not TOPIC@PARTITION")
            folders.append([f"{user}/{name}" for name in names if _NAME.fullmatch(name)])
        return folders


def _parsed(folder: str, path: str, node: Node, is_open: bool) -> FoundOffset:
    match = _NAME.fullmatch(folder.rpartition("/")[2])
    assert match is not None, "folders were chosen so"
    topic, partition = match[1], int(match[2])
    document = json_of(node.value)
    named = document.get("tp", {"topic": topic, "partition": partition})
    if not isinstance(named, dict) or (named.get("topic"), named.get("partition")) != (
        topic,
        partition,
    ):
        raise ValueError(f"it says {named!r}")
    if is_open:
        offset = checked_offset(document.get("firstOffset"))
    else:
        offset = checked_offset(document.get("lastOffset")) + 1
    return found_at(path, node, topic, partition, checked_offset(offset))

"""All partitions in one znode: `0:123,1:456`, partition and next offset. The topic is an option.

`root` is such a znode, or a folder of them. The znode's name is the group, unless an option names
it.
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
    parse_partition,
    value_of,
)
from offsetd_clients.migration.zookeeper.tree import Node, Tree, joined, listed

_ENTRY = re.compile(r"\s*([0-9]{1,10})\s*:\s*([0-9]{1,19})\s*")


class Packed(OnlyWrittenPlaces):
    """It needs `root` and `topic`; `group` is only for a single znode."""

    def __init__(self, options: LayoutOptions) -> None:
        if not (options.root and options.topic):
            raise BadLayout("the layout packed needs --root and --topic: its values name no topic")
        self._root = joined(options.root)
        self._topic = options.topic
        self._group = options.group
        self._is_last = options.is_last

    def group_ids(self, tree: Tree) -> Iterator[str | Problem]:
        names = listed(tree, self._root)
        if names and self._group:
            raise BadLayout(f"{self._root} has {len(names)} children: each is a group of its own")
        if names:
            yield from names
        else:
            yield self._group or self._root.rpartition("/")[2]

    def read(self, tree: Tree, group_ids: Sequence[str]) -> list[FoundGroup]:
        children = listed(tree, self._root)
        paths = [joined(self._root, each) if children else self._root for each in group_ids]
        nodes = tree.nodes(paths)
        found = []
        for group_id, path in zip(group_ids, paths, strict=True):
            reading = GroupReading(group_id, owners=None)
            node = nodes[path]
            if isinstance(node, Problem):
                reading.note(node)
            else:
                try:
                    reading.offsets += self._parsed(path, node)
                except ValueError as error:
                    reading.bad(ProblemKind.BAD_VALUE, path, error)
            found.append(reading.found())
        return found

    def rendered(self, value: bytes, found: FoundOffset, offset: int) -> bytes:
        if not value:
            raise CannotWriteBack("one znode has all partitions: write it by hand")
        entries = value.decode().split(",")
        for at, entry in enumerate(entries):
            match = _ENTRY.fullmatch(entry)
            if match is not None and int(match[1]) == found.partition:
                entries[at] = f"{match[1]}:{value_of(offset, is_last=self._is_last)}"
                return ",".join(entries).encode()
        raise CannotWriteBack(f"partition {found.partition} is no longer in the znode")

    def _parsed(self, path: str, node: Node) -> list[FoundOffset]:
        text = node.value.decode(errors="backslashreplace")
        offsets = []
        for entry in text.split(","):
            match = _ENTRY.fullmatch(entry)
            if match is None:
                raise ValueError(f"{entry[:40]!r} is not PARTITION:OFFSET")
            partition = parse_partition(match[1])
            offset = checked_offset(int(match[2]) + self._is_last)
            offsets.append(found_at(path, node, self._topic, partition, offset))
        return offsets

"""The contents and names of a simulated disk, and the changes to both that were not synced yet.

A file knows its durable bytes, the changes since its last sync, and the bytes that reads see (the
page cache). A folder knows the same of its names. A power cut keeps any subset of the unsynced
changes, and any sectors of an unsynced write; `offsetd_storage.disk.simulated_crashes` lists all
possible results.
"""

from __future__ import annotations

import hashlib
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

BLOCK_BYTES = 4096  # Space is allocated in blocks of this size.
_NEVER_OPENED = Path()


class Content:
    """A file's bytes. Copies share them until one of the holders writes."""

    __slots__ = ("_bytes", "_digest", "_owned")

    def __init__(self, initial: bytes | bytearray = b"", digest: bytes | None = None) -> None:
        self._bytes = initial
        self._digest = digest
        self._owned = False

    def __len__(self) -> int:
        return len(self._bytes)

    def share(self) -> Content:
        """A copy, independent of this one; costs nothing until one of the two is written to."""
        self._owned = False
        return Content(self._bytes, self._digest)

    def read(self, size: int, position: int) -> bytes:
        """`size` bytes from `position`; fewer at the end of the contents."""
        return bytes(memoryview(self._bytes)[position : position + size])

    def write(self, position: int, chunk: bytes) -> None:
        """Puts `chunk` at `position`, after zeros if the contents were shorter."""
        own = self._own()
        if position > len(own):
            own.extend(bytes(position - len(own)))
        own[position : position + len(chunk)] = chunk

    def set_size(self, size: int) -> None:
        """Cuts the contents, or extends them with zeros."""
        if size == len(self._bytes):
            return
        own = self._own()
        if size < len(own):
            del own[size:]
        else:
            own.extend(bytes(size - len(own)))

    def digest(self) -> bytes:
        """A value that is equal only for equal contents."""
        if self._digest is None:
            self._digest = hashlib.blake2b(self._bytes, digest_size=16).digest()
        return self._digest

    def _own(self) -> bytearray:
        self._digest = None
        own = self._bytes
        if not self._owned or isinstance(own, bytes):
            own = bytearray(own)
            self._bytes = own
            self._owned = True
        return own


@attrs.frozen(slots=True)
class Write:
    """Bytes written at a position."""

    position: int
    chunk: bytes

    def apply(self, content: Content) -> None:
        """Makes the change."""
        content.write(self.position, self.chunk)

    def torn_count(self, sector_bytes: int) -> int:
        """The number of ways in which `torn` can tear it."""
        return 2 * len(self._cuts(sector_bytes)) + 1

    def torn(self, way: int, sector_bytes: int) -> FileChange:
        """The change that remains if only some sectors were written; `way` is below `torn_count`.

        It has the sectors before a boundary; or those after a boundary, with the length grown to
        the write's end; or the length alone.
        """
        cuts = self._cuts(sector_bytes)
        if way < len(cuts):
            return Write(self.position, self.chunk[: cuts[way] - self.position])
        if way < 2 * len(cuts):
            cut = cuts[way - len(cuts)]
            return Write(cut, self.chunk[cut - self.position :])
        return Extend(self.position + len(self.chunk))

    def torn_at_random(self, random: Random, sector_bytes: int) -> list[FileChange]:
        """The changes that remain if each sector was written or not, at random."""
        end = self.position + len(self.chunk)
        bounds = [self.position, *self._cuts(sector_bytes), end]
        left: list[FileChange] = [
            Write(start, self.chunk[start - self.position : stop - self.position])
            for start, stop in pairwise(bounds)
            if random.random() < 0.5
        ]
        return [*left, Extend(end)] if random.random() < 0.5 else left

    def _cuts(self, sector_bytes: int) -> range:
        first = (self.position // sector_bytes + 1) * sector_bytes
        return range(first, self.position + len(self.chunk), sector_bytes)


@attrs.frozen(slots=True)
class SetSize:
    """A change of a file's length."""

    size: int

    def apply(self, content: Content) -> None:
        """Makes the change."""
        content.set_size(self.size)


@attrs.frozen(slots=True)
class Extend:
    """Growth of a file's length to at least this: what remains of a write that lost its bytes."""

    size: int

    def apply(self, content: Content) -> None:
        """Makes the change."""
        content.set_size(max(self.size, len(content)))


FileChange: TypeAlias = Write | SetSize | Extend


class FileNode:
    """A file, under any name."""

    __slots__ = (
        "blocks",
        "cached",
        "durable",
        "lost",
        "modified_ms",
        "path",
        "pending",
        "stamp",
    )

    def __init__(self, durable: Content, modified_ms: int, *, stamp: int) -> None:
        self.durable = durable
        self.cached = durable.share()
        # The unsynced changes, each with its number among all changes of the disk.
        self.pending: list[tuple[int, FileChange]] = []
        self.lost = False  # Whether reads see bytes that no sync will write any more.
        self.blocks = blocks_of(0, len(durable))  # One bit for each block that the file has.
        self.modified_ms = modified_ms
        self.stamp = stamp  # New after each change; a power cut does not bring an old one back.
        self.path = _NEVER_OPENED  # The path of its last opening, or of its last rename since.

    def change(self, number: int, change: FileChange, now_ms: int) -> None:
        """Makes a change that reads see and that is not durable."""
        change.apply(self.cached)
        self.pending.append((number, change))
        self.modified_ms = now_ms

    def sync(self) -> None:
        """Makes pending changes durable."""
        for _, change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def fail_sync(self, writes_done: int) -> None:
        """Fails a sync: only the first `writes_done` writes reached the disk.

        The pages of the other writes count as clean: reads see them, and a later sync does not
        write them. The length that these writes gave the file is kept, because it is in the file
        system's journal (seen on ext4: the lost blocks read as zeros once the cache is dropped).
        """
        done = 0
        for place, (number, change) in enumerate(self.pending):
            if not isinstance(change, Write):
                continue
            done += 1
            if done > writes_done:
                end = change.position + len(change.chunk)
                self.pending[place] = (number, Extend(end))
                self.lost = True

    def drop_cache(self) -> None:
        """Forgets clean pages, so that reads no longer see what a failed sync lost."""
        if not self.lost:
            return
        self.cached = self.durable.share()
        for _, change in self.pending:
            change.apply(self.cached)
        self.lost = False

    def copy(self) -> FileNode:
        """The same file on another disk, not open there."""
        copied = FileNode(self.durable.share(), self.modified_ms, stamp=self.stamp)
        copied.cached = self.cached.share()
        copied.pending = self.pending.copy()
        copied.lost = self.lost
        copied.blocks = self.blocks
        return copied


class FolderNode:
    """A folder: names, and what they name."""

    __slots__ = ("durable", "entries", "pending", "stamp")

    def __init__(self, entries: dict[str, Node], *, stamp: int = 0) -> None:
        self.durable = entries
        self.stamp = stamp
        self.entries = entries.copy()
        self.pending: list[tuple[int, NameChange]] = []

    def change(self, number: int, change: NameChange) -> None:
        """Makes a change that is visible at once and is not durable."""
        change.apply(self.entries)
        self.pending.append((number, change))

    def sync(self) -> None:
        """Makes pending changes durable."""
        for _, change in self.pending:
            change.apply(self.durable)
        self.pending.clear()


Node: TypeAlias = FileNode | FolderNode


@attrs.frozen(slots=True)
class AddName:
    """A new name."""

    name: str
    node: Node

    def apply(self, entries: dict[str, Node]) -> None:
        """Makes the change, unless another node still has the name: its removal did not survive."""
        entries.setdefault(self.name, self.node)


@attrs.frozen(slots=True)
class RemoveName:
    """A removed name."""

    name: str
    node: Node

    def apply(self, entries: dict[str, Node]) -> None:
        """Makes the change, unless the name is another node's: an earlier change was lost."""
        if entries.get(self.name) is self.node:
            del entries[self.name]


@attrs.frozen(slots=True)
class MoveName:
    """A renamed node, which replaces the node that had the name before."""

    source: str
    target: str
    node: Node

    def apply(self, entries: dict[str, Node]) -> None:
        """Makes the change, unless the node is not at `source`: an earlier change was lost."""
        if entries.get(self.source) is self.node:
            del entries[self.source]
            entries[self.target] = self.node


NameChange: TypeAlias = AddName | RemoveName | MoveName
Change: TypeAlias = FileChange | NameChange


def blocks_of(position: int, size: int) -> int:
    """The blocks that a range of a file touches, as bits."""
    if size <= 0:
        return 0
    first = position // BLOCK_BYTES
    end = -(-(position + size) // BLOCK_BYTES)
    return ((1 << (end - first)) - 1) << first


def fitting_bytes(file: FileNode, position: int, size: int, free_blocks: int) -> int:
    """The number of bytes after `position` that fit into the file's blocks and the free blocks."""
    missing = blocks_of(position, size) & ~file.blocks
    for _ in range(free_blocks):
        missing &= missing - 1  # Takes the lowest bit away.
        if not missing:
            return size
    first_missing = (missing & -missing).bit_length() - 1
    return size if not missing else max(0, first_missing * BLOCK_BYTES - position)


def visible_files(root: FolderNode) -> Iterator[FileNode]:
    """Every file that has a name."""
    folders = [root]
    while folders:
        for node in folders.pop().entries.values():
            if isinstance(node, FolderNode):
                folders.append(node)
            else:
                yield node


def all_nodes(root: FolderNode) -> Iterator[Node]:
    """Every node that has a name, or could get its name back in a crash; each node once."""
    seen = {id(root)}
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, FolderNode):
            pending = (change.node for _, change in node.pending)
            for child in chain(node.durable.values(), pending, node.entries.values()):
                if id(child) not in seen:
                    seen.add(id(child))
                    waiting.append(child)


def copied_root(root: FolderNode) -> FolderNode:
    """An independent copy of everything, pending changes included."""
    copies: dict[int, Node] = {}
    for node in all_nodes(root):
        copies[id(node)] = (
            node.copy() if isinstance(node, FileNode) else FolderNode({}, stamp=node.stamp)
        )
    for node in all_nodes(root):
        copied = copies[id(node)]
        if isinstance(node, FolderNode) and isinstance(copied, FolderNode):
            copied.durable = {name: copies[id(child)] for name, child in node.durable.items()}
            copied.entries = {name: copies[id(child)] for name, child in node.entries.items()}
            copied.pending = [
                (number, attrs.evolve(change, node=copies[id(change.node)]))
                for number, change in node.pending
            ]
    copied_top = copies[id(root)]
    assert isinstance(copied_top, FolderNode)
    return copied_top

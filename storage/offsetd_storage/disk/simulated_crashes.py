"""The states that a power cut can leave of a simulated disk.

The disk promises little more than hardware does. A sector is written whole or not at all, and so is
one change of a folder's names. A change of names survives only with the changes it builds on: a
rename never survives without the creation of the name. Writes have no order.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import attrs

from offsetd_storage.disk.simulated_disk import (
    AddName,
    Change,
    Content,
    Extend,
    FileNode,
    FolderNode,
    MoveName,
    Node,
    RemoveName,
    SetSize,
    Write,
    all_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from random import Random

Survivors: TypeAlias = "Mapping[int, Sequence[Change]]"  # By id() of the node.


@attrs.frozen(slots=True)
class _Pending:
    number: int
    node: Node
    change: Change


def root_without_pending(root: FolderNode) -> FolderNode:
    """`root` after a power cut that loses all pending changes."""
    return _crashed_folder(root, {})[0]


def crashed_roots(
    root: FolderNode,
    *,
    sector_bytes: int,
    exhaustive_pending_max: int,
    samples: int,
    random: Random,
) -> Iterator[FolderNode]:
    """The states that a power cut may leave of `root`, each once.

    `root` must not change during the iteration. First comes the outcome without any pending change,
    then the one with all. If at most `exhaustive_pending_max` changes are pending, every subset
    follows, then every subset in which one write is torn at a sector boundary; if there are more
    than `samples` of these, `samples` chosen at random. With more pending changes, `samples` of all
    outcomes follow, chosen at random.
    """
    pending = [
        _Pending(number, node, change)
        for node in all_nodes(root)
        for number, change in node.pending
    ]
    pending.sort(key=lambda one: one.number)
    if len(pending) <= exhaustive_pending_max:
        outcomes = chain(_subsets(pending), _torn(pending, sector_bytes, samples, random))
    else:
        newest = pending[len(pending) - exhaustive_pending_max :]
        outcomes = chain(
            [{}, _survivors((one, [one.change]) for one in pending)],
            (_by_chance(pending, newest, sector_bytes, random) for _ in range(samples)),
        )
    seen: set[int] = set()
    for survivors in outcomes:
        crashed, signature = _crashed_folder(root, survivors)
        if signature not in seen:
            seen.add(signature)
            yield crashed


def _survivors(kept: Iterable[tuple[_Pending, Sequence[Change]]]) -> Survivors:
    survivors: defaultdict[int, list[Change]] = defaultdict(list)
    for one, left in kept:
        survivors[id(one.node)].extend(left)
    return survivors


def _subsets(pending: list[_Pending]) -> Iterator[Survivors]:
    everything = (1 << len(pending)) - 1
    yield {}
    for kept in [everything, *range(1, everything)]:
        yield _survivors(
            (one, [one.change]) for place, one in enumerate(pending) if kept >> place & 1
        )


def _torn(
    pending: list[_Pending], sector_bytes: int, samples: int, random: Random
) -> Iterator[Survivors]:
    """Subsets in which one write is torn: all of them, or `samples` chosen at random."""
    counts = [
        one.change.torn_count(sector_bytes) if isinstance(one.change, Write) else 0
        for one in pending
    ]
    total = sum(counts) << max(0, len(pending) - 1)
    for case in range(total) if total <= samples else random.sample(range(total), samples):
        way, others = case >> (len(pending) - 1), case & ((1 << (len(pending) - 1)) - 1)
        torn_place = 0
        while way >= counts[torn_place]:
            way -= counts[torn_place]
            torn_place += 1
        kept: list[tuple[_Pending, Sequence[Change]]] = []
        for place, one in enumerate(pending):
            if place == torn_place and isinstance(one.change, Write):
                kept.append((one, [one.change.torn(way, sector_bytes)]))
                continue
            if others & 1:
                kept.append((one, [one.change]))
            others >>= 1
        yield _survivors(kept)


def _by_chance(
    pending: list[_Pending], newest: list[_Pending], sector_bytes: int, random: Random
) -> Survivors:
    """One outcome, chosen at random.

    Half of the time the newest changes are lost: they matter most.
    """
    old_kept = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    torn = random.choice((0.0, 0.2, 0.5))
    newest_first = newest[0].number if newest else 0
    kept: list[tuple[_Pending, Sequence[Change]]] = []
    for one in pending:
        chance = 0.5 if newest and one.number >= newest_first else old_kept
        if random.random() >= chance:
            continue
        if isinstance(one.change, Write) and random.random() < torn:
            kept.append((one, one.change.torn_at_random(random, sector_bytes)))
        else:
            kept.append((one, [one.change]))
    return _survivors(kept)


def _crashed_folder(folder: FolderNode, survivors: Survivors) -> tuple[FolderNode, int]:
    """The folder after a power cut, and a number that is equal for equal outcomes."""
    entries = folder.durable
    if kept := survivors.get(id(folder)):
        entries = entries.copy()
        for change in kept:
            assert isinstance(change, AddName | RemoveName | MoveName)
            change.apply(entries)
    crashed: dict[str, Node] = {}
    signatures: list[tuple[str, object]] = []
    for name, node in entries.items():
        signature: object
        if isinstance(node, FolderNode):
            crashed[name], signature = _crashed_folder(node, survivors)
        else:
            content = _crashed_content(node, survivors.get(id(node), ()))
            signature = content.digest()
            crashed[name] = FileNode(content, node.modified_ms, stamp=node.stamp)
        signatures.append((name, signature))
    signatures.sort(key=lambda one: one[0])
    return FolderNode(crashed, stamp=folder.stamp), hash(tuple(signatures))


def _crashed_content(file: FileNode, kept: Sequence[Change]) -> Content:
    if not kept:
        file.durable.digest()  # All later copies know the digest.
        return file.durable.share()
    content = file.durable.share()
    for change in kept:
        assert isinstance(change, Write | SetSize | Extend)
        change.apply(content)
    return content

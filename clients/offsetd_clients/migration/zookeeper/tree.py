"""Znodes as layouts see them, and paths. Nothing here needs a ZooKeeper client."""

from collections.abc import Iterable
from typing import Protocol

import attrs

from offsetd_clients.migration.values import Problem, ProblemKind, SourceFailed


@attrs.frozen
class Node:
    """A znode as it was read: its bytes, and what its stat says."""

    value: bytes
    mtime_ms: int
    mzxid: int
    version: int


class Tree(Protocol):
    """What layouts read with. An answer is there for each path that was asked for."""

    def children(self, paths: Iterable[str]) -> dict[str, list[str] | Problem]:
        """Names, sorted; or why there are none: VANISHED, UNREADABLE. Raises SourceFailed."""

    def nodes(self, paths: Iterable[str]) -> dict[str, Node | Problem]:
        """The znodes themselves, or the same."""


def joined(*parts: str) -> str:
    """A path of parts; a root `/` is none."""
    return "/" + "/".join(part.strip("/") for part in parts if part.strip("/"))


def is_absent(answer: object) -> bool:
    """Whether there is nothing at a path."""
    return isinstance(answer, Problem) and answer.kind is ProblemKind.VANISHED


def listed(tree: Tree, path: str) -> list[str]:
    """The children of a path that has to be there. Raises SourceFailed."""
    answer = tree.children([path])[path]
    if isinstance(answer, Problem):
        raise SourceFailed(str(answer))
    return answer

"""Znodes and paths for layouts. This module needs no ZooKeeper client."""

from collections.abc import Iterable
from typing import Protocol

import attrs

from offsetd_clients.migration.values import Problem, ProblemKind, SourceFailed


@attrs.frozen
class Node:
    """A znode that was read: its bytes and its stat."""

    value: bytes
    mtime_ms: int
    mzxid: int
    version: int


class Tree(Protocol):
    """The tree that layouts read. Each requested path has an answer."""

    def children(self, paths: Iterable[str]) -> dict[str, list[str] | Problem]:
        """The sorted names of the children, or a problem.

        The problem is VANISHED or UNREADABLE. Raises SourceFailed.
        """

    def nodes(self, paths: Iterable[str]) -> dict[str, Node | Problem]:
        """The znodes, or the problems that `children` has."""


def joined(*parts: str) -> str:
    """Joins parts to a path. A root `/` adds nothing."""
    return "/" + "/".join(part.strip("/") for part in parts if part.strip("/"))


def is_absent(answer: object) -> bool:
    """Whether nothing exists at a path."""
    return isinstance(answer, Problem) and answer.kind is ProblemKind.VANISHED


def listed(tree: Tree, path: str) -> list[str]:
    """The children of a path that must exist. Raises SourceFailed."""
    answer = tree.children([path])[path]
    if isinstance(answer, Problem):
        raise SourceFailed(str(answer))
    return answer

"""Which module of a package imports which, and the circles among them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Graph = dict[str, frozenset[str]]
"""Each module, by its dotted name, and the modules of the same package that it imports."""


def import_graph(package: Path) -> Graph:
    """The imports between the modules of the package in a folder.

    Imports count wherever they stand: at the top, in a function, under TYPE_CHECKING.
    An import of a module does not count as an import of the packages around it.
    """
    files = {_module_name(package, path): path for path in sorted(package.rglob("*.py"))}
    return {
        name: frozenset(_imported(name, path, files)) & files.keys() - {name}
        for name, path in files.items()
    }


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """Each largest set of modules that all import one another, directly or through others.

    Its modules are sorted, and so are the circles. A module on its own is no circle.
    """
    reached = {name: _reachable(graph, name) for name in graph}
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other])) for name in graph
    }
    return sorted(circle for circle in found if len(circle) > 1)


def shortest_walk(graph: Graph, start: str) -> list[str]:
    """The shortest chain of imports from a module back to itself; both ends are that module."""
    walks = [[start]]
    seen: set[str] = set()
    for walk in walks:
        for name in sorted(graph[walk[-1]]):
            if name == start:
                return [*walk, start]
            if name not in seen:
                seen.add(name)
                walks.append([*walk, name])
    raise ValueError(f"{start} is in no circle")


def _module_name(package: Path, path: Path) -> str:
    parts = (package.name, *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Every name that a module imports: the dotted names of modules, and names of nothing else."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(name, path, node)
            for alias in node.names:
                module = f"{base}.{alias.name}"
                yield module if module in modules else base


def _absolute(name: str, path: Path, node: ast.ImportFrom) -> str:
    """The dotted name from which a `from … import` takes its names."""
    if not node.level:
        return node.module or ""
    inside = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    around = inside[: len(inside) - (node.level - 1)]
    return ".".join([*around, node.module] if node.module else around)


def _reachable(graph: Graph, start: str) -> set[str]:
    """What a module imports, directly or through others; itself only if it is in a circle."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(graph[name])
    return found

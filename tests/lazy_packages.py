"""Packages whose public names are imported when they are first asked for."""

import ast
from pathlib import Path
from types import ModuleType


def told_to_types(package: ModuleType) -> dict[str, str]:
    """The module of each name, by the imports that only those who read types see."""
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text())
    return {
        alias.name: f"{node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and f"{node.module}".startswith(f"{package.__name__}.")
        for alias in node.names
    }


def looked_up(package: ModuleType) -> dict[str, str]:
    """The module of each name, as the package finds it."""
    return {
        name: f"{package.__name__}.{module}" for name, module in vars(package)["_MODULE_OF"].items()
    }

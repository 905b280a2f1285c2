"""A checkout with bytecode, as an installed package has it."""

from __future__ import annotations

import os
from pathlib import Path

BYTECODE = Path(__file__).parents[1] / ".cache" / "bytecode"  # Stays for the next run.


def with_bytecode(folder: Path) -> dict[str, str]:
    """Our environment, in which a checkout finds its bytecode as an installed package does.

    Else each start would compile all sources wherever Python is told to write nothing beside them.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment

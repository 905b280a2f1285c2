"""Gives a checkout the bytecode that an installed package has."""

from __future__ import annotations

import os
from pathlib import Path

BYTECODE = Path(__file__).parents[2] / ".cache" / "bytecode"  # It stays for the next run.


def with_bytecode(folder: Path) -> dict[str, str]:
    """Our environment, with a folder in which a checkout finds its bytecode.

    Otherwise, if PYTHONDONTWRITEBYTECODE is set, each start would compile all sources.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment

"""The data folders of a cluster of brokers, made of the one of a broker."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NODES: Final = 3


def nodes_of(golden: Path, folder: Path) -> list[Path]:
    """Each log is on two of three nodes, and one of its copies lags behind."""
    nodes = []
    for number in range(NODES):
        node = folder / f"node-{number}"
        node.mkdir(parents=True)
        nodes.append(node)
        for each in sorted((golden / "data").iterdir()):
            if each.is_file():
                shutil.copy(each, node)
                continue
            place = (int(each.name.rpartition("-")[2]) - number) % NODES
            if place < NODES - 1:
                shutil.copytree(each, node / each.name)
            if place == 1:
                last = max((node / each.name).glob("*.log"))
                last.write_bytes(b"")
    return nodes

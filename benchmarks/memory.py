"""Measures anonymous memory per stored offset, in addition to that of an empty server."""

from __future__ import annotations

import tempfile
from pathlib import Path

from offsetd_clients import OffsetClient

from benchmarks.harness.generate_log import Shape, generate
from benchmarks.harness.our_server import serving
from benchmarks.harness.rounds import Spread

KEYS = 1_000_000


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Bytes per offset after a load of `KEYS * scale` offsets without metadata."""
    keys = int(KEYS * scale)
    shape = Shape(records=keys * 4, batch=20, keys=keys, partitions_per_group=20)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as name:
        empty, full = Path(name) / "empty", Path(name) / "full"
        generate(full, shape)
        stored = _bytes_each(full, empty, rounds)
    return {f"bytes of memory per offset, {keys:,} offsets": Spread.of(stored)}


def offset_count(address: str) -> int:
    """The number of offsets that a server holds."""
    with OffsetClient(address) as client:
        return client.get_server_info().offset_count


def _bytes_each(full: Path, empty: Path, rounds: int) -> list[float]:
    figures = []
    for _ in range(rounds):
        with serving(empty) as server:
            base = server.anonymous_bytes
        with serving(full) as server:
            figures.append((server.anonymous_bytes - base) / offset_count(server.address))
    return figures

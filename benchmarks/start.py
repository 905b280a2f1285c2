"""Measures the start of an empty server, from exec to SERVING, with the kernels in their cache."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.harness import rounds
from benchmarks.harness.our_server import serving


def run(*, rounds: int, scale: float) -> dict[str, object]:  # noqa: ARG001
    """Seconds of a first start, which makes the folder, and of a second. `scale` has no effect."""
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as name,
        serving(Path(name) / "data"),
    ):
        # This start compiles missing kernels, and stores them in the cache for the other starts.
        pass
    first, second = [], []
    for _ in range(max(rounds, 3)):
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as name:
            for seconds in (first, second):
                with serving(Path(name) / "data") as server:
                    seconds.append(server.seconds_to_serving)
    return {
        "first start of a new folder, s": _spread(first),
        "start of an empty folder, s": _spread(second),
    }


def _spread(seconds: list[float]) -> rounds.Spread:
    return rounds.Spread.of(seconds)

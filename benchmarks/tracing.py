"""Compares commits at a server with tracing off, and at one that traces a hundredth of the calls.

Spans go to a receiver that drops them. Streams' messages have no span unless the client traces, so
unary commits show the cost.
"""

from __future__ import annotations

import os
from typing import Final

from otlp_receiver import OtlpReceiver

from benchmarks import commit_path
from benchmarks.harness.compared_servers import compare, two_cores

SECONDS: Final = 3.0


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Ratios and figures, as medians over the rounds with their spread."""
    settings = ["tracing.enable=true", "tracing.sample.ratio=0.01"]
    with two_cores() as core, OtlpReceiver() as receiver:
        os.environ.update(receiver.environment)
        with (
            commit_path.our_process(core) as off,
            commit_path.our_process(core, settings) as on,
        ):
            servers = {"off": off, "on at 1 %": on}
            return compare(servers, rounds=rounds, seconds=max(0.5, SECONDS * scale))

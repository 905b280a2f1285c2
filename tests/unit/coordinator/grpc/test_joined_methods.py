"""The methods whose calls a transport may give together."""

from __future__ import annotations

from typing import Any

import pytest
from memory_commit_log import MemoryTopic
from memory_nodes import IN_FLIGHT_BYTES_MAX, MemoryNode
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.counters import CallCounters
from offsetd_coordinator.grpc import handlers
from offsetd_coordinator.messages.method_access import METHODS
from offsetd_coordinator.security.authorizer import Authorizer


class Called:
    """What a generic handler is asked for."""

    invocation_metadata = ()

    def __init__(self, method: str) -> None:
        self.method = method


def _tracing() -> Any:
    trace = pytest.importorskip("opentelemetry.trace", reason="OpenTelemetry is not installed")
    from offsetd_coordinator.grpc.call_tracing import CallTracing

    return CallTracing(trace.NoOpTracer(), 1.0)


@pytest.mark.parametrize("is_traced", [False, True])
async def test_unary_commits_and_fetches_are_joined_unless_they_are_traced(
    is_traced: bool,
) -> None:
    node = MemoryNode(MemoryTopic(4), range(4))
    tracing = _tracing() if is_traced else None
    made = handlers.generic_handlers(
        node.node,
        Admission(IN_FLIGHT_BYTES_MAX),
        node.settings,
        CallCounters(),
        authorizer=Authorizer(),
        tracing=tracing,
    )
    found: dict[str, Any] = {}
    for name, method in METHODS.items():
        called: Any = Called(f"/{method.containing_service.full_name}/{name}")
        found[name] = next(filter(None, (each.service(called) for each in made)))
    joined = {name for name, each in found.items() if hasattr(each, "join")}
    assert joined == (set() if is_traced else {"CommitOffsets", "FetchOffsets"})

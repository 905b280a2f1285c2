"""A Kafka cluster that does not answer. What one answers is in tests/interop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.errors import KafkaUnavailable
from offsetd_coordinator.offset_changes import Bounds
from offsetd_coordinator.services.kafka_bounds import KafkaBounds
from patience import PATIENCE_SECONDS as WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

WHERE = (b"orders", 0)
FOUND = {WHERE: Bounds(3, 9)}


class SlowCluster:
    """Answers the first call when it is told to, and others at once."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.calls = 0

    def bounds(self, *_: object) -> dict[tuple[bytes, int], Bounds]:
        self.calls += 1
        if self.calls == 1:
            self.begun.set()
            assert self.go_on.wait(WAIT_S)
        return FOUND


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowCluster]:
    cluster = SlowCluster()
    monkeypatch.setattr(KafkaBounds, "_bounds", cluster.bounds)
    yield cluster
    cluster.go_on.set()


async def test_a_cluster_that_is_not_there_is_told_so() -> None:
    cluster = KafkaBounds("127.0.0.1:1", timeout_s=0.2)
    with pytest.raises(KafkaUnavailable):
        await cluster.bounds([(b"orders", 0)], [])
    assert KafkaUnavailable.retriable


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_who_waits_for_others_waits_no_longer_than_the_deadline(
    slow: SlowCluster, is_cancelled: bool
) -> None:
    """Also for one whose caller is gone: its thread asks the cluster all the same."""
    cluster = KafkaBounds("127.0.0.1:1", timeout_s=WAIT_S)
    first = asyncio.create_task(cluster.bounds([WHERE], []))
    assert await asyncio.to_thread(slow.begun.wait, WAIT_S)
    if is_cancelled:
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(KafkaUnavailable, match="has not answered earlier questions"):
            await cluster.bounds([WHERE], [], timeout_s=0.01)
        assert slow.calls == 1
        slow.go_on.set()
        assert await cluster.bounds([WHERE], []) == FOUND
        assert is_cancelled or await first == FOUND

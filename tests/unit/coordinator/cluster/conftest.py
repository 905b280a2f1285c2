"""What the tests of a node's log on Kafka share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster_logs import LogByHand

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> Callable[..., LogByHand]:
    """Makes a log that serves partitions, by the numbers that it is given."""

    def made(*partitions: int) -> LogByHand:
        node = LogByHand(monkeypatch)
        if partitions:
            node.serve(*partitions)
            node.commit()
        return node

    return made

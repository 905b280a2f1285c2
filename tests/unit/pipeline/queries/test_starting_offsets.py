from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import TopicPartition
from offsetd_pipeline.queries.starting_offsets import Uncommitted, starting_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Committed:
    """A server whose one group has these offsets."""

    def __init__(self, offsets: Mapping[tuple[str, int], int]) -> None:
        self._offsets = offsets

    def fetch(self, group_id: str, *, require_stable: bool = False) -> Any:
        assert (group_id, require_stable) == ("billing", True)
        return {
            TopicPartition(*where): SimpleNamespace(offset=offset)
            for where, offset in self._offsets.items()
        }

    def fetch_bounds(self, *, topics: Iterable[str] = ()) -> Any:
        partitions = {"orders": 3, "others": 1}
        return {
            TopicPartition(topic, partition): SimpleNamespace(earliest=0, latest=9)
            for topic in topics
            for partition in range(partitions.get(topic, 0))
        }


COMMITTED = Committed({("orders", 1): 42, ("orders", 0): 0, ("others", 9): 7})


@pytest.mark.parametrize(
    ("uncommitted", "number"), [(Uncommitted.EARLIEST, -2), (Uncommitted.LATEST, -1)]
)
def test_every_partition_is_named_whether_committed_or_not(
    uncommitted: Uncommitted, number: int
) -> None:
    text = starting_offsets(
        COMMITTED, "billing", {"orders": 3, "empty": 1}, uncommitted=uncommitted
    )
    assert json.loads(text) == {
        "orders": {"0": 0, "1": 42, "2": number},
        "empty": {"0": number},
    }


def test_a_topic_with_fewer_partitions_than_are_committed_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"committed partition 1 of orders, .* said to have 1"):
        starting_offsets(COMMITTED, "billing", {"orders": 1})


def test_names_alone_do_where_the_server_knows_the_partitions() -> None:
    text = starting_offsets(COMMITTED, "billing", ["orders"])
    assert json.loads(text) == {"orders": {"0": 0, "1": 42, "2": -2}}


def test_a_topic_whose_partitions_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"knows no partitions of empty, gone: say how many"):
        starting_offsets(COMMITTED, "billing", ["orders", "empty", "gone"])
    with pytest.raises(TypeError, match="one text where several are expected"):
        starting_offsets(COMMITTED, "billing", "orders")

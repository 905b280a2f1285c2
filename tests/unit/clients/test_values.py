"""offsetd_clients.values"""

from typing import Any

import pytest
from offsetd_clients.values import OffsetToCommit, Revision, TopicPartition


@pytest.mark.parametrize(
    "preconditions",
    [
        {"expected_offset": 1, "expected_revision": 2},
        {"expected_offset": 0, "must_not_exist": True},
        {"expected_revision": 0, "must_not_exist": True},
    ],
)
def test_an_offset_takes_one_precondition_not_several(preconditions: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one precondition"):
        OffsetToCommit(5, **preconditions)


def test_partitions_sort_by_topic_and_then_by_number() -> None:
    partitions = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]
    assert [str(partition) for partition in sorted(partitions)] == ["a:9", "a:10", "b:0"]


def test_a_later_revision_of_a_log_partition_is_larger() -> None:
    assert Revision(3, 10) < Revision(3, 11)


@pytest.mark.parametrize("value", ["1", 1.0, None])
def test_a_position_is_a_whole_number(value: Any) -> None:
    for make in (OffsetToCommit, lambda number: TopicPartition("orders", number)):
        with pytest.raises(TypeError, match=f"{value!r} is not a whole number"):
            make(value)

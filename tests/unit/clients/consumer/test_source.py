"""What a source may give: items of the partition that was asked, in order."""

from __future__ import annotations

import pytest
from offsetd_clients import Bounds, Item, Source, SourceBroken, TopicPartition
from offsetd_clients.consumer.source import checked, checked_counts

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_items_in_order_are_taken_with_gaps() -> None:
    items = [Item(A, 5, 7, "x"), Item(A, 9, 10, "y")]
    assert checked(iter(items), A, 3) == items


@pytest.mark.parametrize(
    "items",
    [
        [Item(B, 5, 6, "")],
        [Item(A, 4, 6, "")],
        [Item(A, 5, 5, "")],
        [Item(A, 5, 7, ""), Item(A, 6, 8, "")],
    ],
    ids=["another partition's", "from before", "that ends where it begins", "that overlap"],
)
def test_other_items_are_the_sources_mistake(items: list[Item[str]]) -> None:
    with pytest.raises(SourceBroken, match="0"):
        checked(items, A, 5)


def test_topics_without_partitions_are_passed_over() -> None:
    assert checked_counts({"b": 1, "a": 2, "none": 0}) == {"a": 2, "b": 1}
    for wrong in ({"": 1}, {"a": -1}):
        with pytest.raises(SourceBroken):
            checked_counts(wrong)


def test_a_source_need_not_know_its_bounds_nor_where_to_begin() -> None:
    class Least(Source[str]):
        def partition_counts(self) -> dict[str, int]:
            return {"a": 1}

        def read(
            self, topic_partition: TopicPartition, offset: int, items_max: int
        ) -> list[Item[str]]:
            return []

    assert Least().bounds(A) == Bounds()
    assert Least().assign({A: None}) == {}

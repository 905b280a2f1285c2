"""Which names are those of partitions."""

from __future__ import annotations

import pytest
from offsetd_storage.topic_partition import TopicPartition


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("__consumer_offsets-49", "__consumer_offsets", 49),
        ("a-b-0", "a-b", 0),
        ("A.b_c-2147483647", "A.b_c", 2**31 - 1),
        ("t" * 249 + "-1", "t" * 249, 1),
    ],
)
def test_a_folder_is_named_by_topic_and_partition(name: str, topic: str, partition: int) -> None:
    found = TopicPartition.of_folder(name)
    assert found == TopicPartition(topic, partition) == TopicPartition.checked(topic, partition)
    assert found.folder_name == str(found) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "-0",
        "topic",
        "topic-",
        "topic-x",
        "topic-01",
        "topic-\u0661",
        "topic--1 ",
        "topic-2147483648",
        "topic-99999999999",
        "topic-" + "9" * 200,
        "t" * 250 + "-1",
        "a b-0",
        "gr\u00fcn-0",
        "topic-0.5f0d-delete",
    ],
)
def test_other_folders_are_no_partitions(name: str) -> None:
    assert TopicPartition.of_folder(name) is None


@pytest.mark.parametrize(
    ("topic", "partition"),
    [("", 0), ("../up", 0), ("a/b", 0), ("a\0", 0), ("topic", -1), ("topic", 2**31)],
)
def test_names_that_could_lead_elsewhere_are_refused(topic: str, partition: int) -> None:
    with pytest.raises(ValueError, match="not a topic and partition"):
        TopicPartition.checked(topic, partition)

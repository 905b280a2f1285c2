from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from offsetd_clients import TopicPartition
from offsetd_pipeline.queries.kafka_progress import (
    Position,
    batch_progress,
    idle_progress,
    kafka_offsets,
    least_offsets,
)
from spark_events import QUERY, RUN, recorded


def source(description: str, end: Any, latest: Any = None, *, start: Any = None) -> Any:
    return {
        "description": description,
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
    }


def progress(*sources: Any) -> Any:
    told = {"id": QUERY, "runId": RUN, "name": None, "batchId": 3, "sources": sources}
    return SimpleNamespace(json=json.dumps(told))


def test_a_recorded_batch_has_the_offsets_of_all_its_kafka_sources() -> None:
    first = batch_progress(recorded("billing")[0].progress)
    assert first is not None
    assert (first.query_id, first.run_id, first.name, first.batch_id) == (QUERY, RUN, "billing", 0)
    assert first.positions == {
        TopicPartition("orders", 0): Position(6, 10),
        TopicPartition("orders", 1): Position(6, 11),
        TopicPartition("orders", 2): Position(7, 12),
        TopicPartition("payments", 0): Position(5, 5),
        TopicPartition("payments", 1): Position(5, 5),
    }
    assert first.topics == {"orders", "payments"}


def test_sources_that_are_not_kafkas_are_passed_over() -> None:
    [event] = recorded(None)  # It reads from Kafka and from Spark's own rate source.
    found = batch_progress(event.progress)
    assert found is not None
    assert found.positions[TopicPartition("orders", 1)] == Position(18, 18)
    assert len(found.positions) == 5
    assert batch_progress(progress(source("RateStreamV2[rowsPerSecond=10]", 0))) is None
    assert batch_progress(progress(source("offsetd", {"orders": {"0": 7}}))) is None


def test_where_two_sources_read_one_partition_the_one_behind_counts() -> None:
    found = batch_progress(
        progress(
            source("KafkaV2[Subscribe[t]]", {"t": {"0": 7, "1": 3}}, {"t": {"0": 9, "1": 9}}),
            source("KafkaV2[Subscribe[t]]", {"t": {"0": 4, "1": 5}}, {"t": {"0": 8, "1": 10}}),
        )
    )
    assert found is not None
    assert found.positions == {
        TopicPartition("t", 0): Position(4, 9),
        TopicPartition("t", 1): Position(3, 10),
    }


def test_an_end_from_before_the_batch_is_not_below_what_was_read() -> None:
    # As real-time mode told it.
    told = source(
        "KafkaV2[Subscribe[orders]]",
        {"orders": {"0": 10, "1": 10}},
        {"orders": {"0": 12, "1": 5}},
        start={"orders": {"0": 10, "1": 5}},
    )
    found = batch_progress(progress(told))
    assert found is not None
    assert [each.end_offset for each in found.positions.values()] == [12, 10]


def test_a_kafka_source_without_offsets_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"KafkaV2\[Subscribe\[t\]\] ends with None"):
        batch_progress(progress(source("KafkaV2[Subscribe[t]]", None)))


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ('{"t":{"0":7,"10":0}}', {("t", 0): 7, ("t", 10): 0}),
        ('{"größe":{"0":1}}', {("größe", 0): 1}),
        ("{}", {}),
        ("", None),
        ("-", None),
        ("null", None),
        ("17", None),
        ('{"0":{"value":1,"runTimeMs":5}}', None),
        ('{"7":42}', None),  # Of our own source.
        ('{"token":"AZ4c"}', None),
        ('{"t":{"0":-1}}', None),
        ('{"t":{"0":true}}', None),
        ('{"t":{"0":"7"}}', None),
    ],
)
def test_only_offsets_of_topics_are_taken(text: str, offsets: Any) -> None:
    found = kafka_offsets(text)
    assert found == (offsets and {TopicPartition(*where): at for where, at in offsets.items()})
    assert (found is None) == (offsets is None)


def test_the_least_of_no_sources_is_nothing() -> None:
    assert least_offsets([]) == {}


def test_a_waiting_query_is_behind_the_batch_before_its_next() -> None:
    end = {"t": {"0": 7}}
    waiting = progress(
        source("KafkaV2[Subscribe[t]]", end, start=end),
        source("RateStreamV2[rowsPerSecond=10]", 9, start=8),
    )
    found = idle_progress(waiting)
    assert found is not None
    assert (found.batch_id, found.positions) == (2, {TopicPartition("t", 0): Position(7)})
    for start in ({"t": {"0": 6}}, None):
        assert idle_progress(progress(source("KafkaV2[Subscribe[t]]", end, start=start))) is None
    assert idle_progress(progress(source("RateStreamV2[rowsPerSecond=10]", 9, start=9))) is None

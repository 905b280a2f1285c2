"""What Spark 4.2.0 told a listener of queries over Kafka, recorded, and made anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from offsetd_clients import TopicPartition
from offsetd_pipeline.queries.kafka_progress import BatchProgress, Position
from pyspark.sql.streaming.listener import QueryProgressEvent

SPARK: Final = Path(__file__).parent / "golden" / "spark-4.2.0"
EVENTS: Final[list[list[Any]]] = json.loads((SPARK / "events.json").read_text())
"""Each is its kind and, for progress, Spark's JSON, else query, run and more."""
QUERY: Final = "dc2b0f8e-666f-44e2-9e1b-14ff666f2bcd"
RUN: Final = "f09c2273-9351-4871-8fd0-cd0739d7b391"
LATER_RUN: Final = "00000000-0000-4000-8000-000000000001"
OTHER_QUERY: Final = "00000000-0000-4000-8000-000000000002"


def recorded(name: str | None) -> list[QueryProgressEvent]:
    """The progress of the queries of a name, in order."""
    return [
        QueryProgressEvent.fromJson({"progress": each[1]})
        for each in EVENTS
        if each[0] == "progress" and each[1]["name"] == name
    ]


def batch(
    batch_id: int,
    offsets: dict[tuple[str, int], int],
    *,
    query_id: str = QUERY,
    run_id: str = RUN,
    end_offset: int | None = None,
) -> BatchProgress:
    """A batch that came to these offsets."""
    return BatchProgress(
        query_id=query_id,
        run_id=run_id,
        name="billing",
        batch_id=batch_id,
        positions={
            TopicPartition(*where): Position(offset, end_offset)
            for where, offset in offsets.items()
        },
    )

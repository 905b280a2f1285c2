"""What a server says of its offsets, as rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import pytest
from commit_store import failure
from offsetd_clients import GroupNotFound, InvalidRequest
from offsetd_pipeline.selection import Selection
from offsetd_pipeline.server_options import ServerOptions
from offsetd_pipeline.server_table import ServerWork, server_batches
from offsetd_pipeline.tables import Mode, arrow_schema, schema_of
from pyspark.sql.datasource import EqualTo, In, StringStartsWith

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import Filter


class Exporting:
    """A client of a server that has these lines, and gives those of some groups and topics."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        base = {"group": "g", "topic": "t", "partition": 0, "offset": 7}
        self.lines = [base | line for line in lines]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get_group(self, group_id: str) -> None:
        if len(group_id) > 32_767:
            raise InvalidRequest(failure("INVALID_ARGUMENT", "INVALID_GROUP_ID"))
        if group_id not in {line["group"] for line in self.lines}:
            raise GroupNotFound(failure("NOT_FOUND", "GROUP_ID_NOT_FOUND"))

    def export_offsets(
        self, _: object, group_ids: Sequence[str], *, topics: Sequence[str]
    ) -> Iterator[bytes]:
        for topic in topics:
            assert 0 < len(topic.encode("utf-16-le")) <= 2 * 249, "a server refuses other names"
        for line in self.lines:
            is_asked = not topics or line["topic"] in topics
            if is_asked and (not group_ids or line["group"] in group_ids):
                yield json.dumps(line).encode() + b"\n"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    def rows(client: Exporting, *filters: Filter) -> list[dict[str, Any]]:
        monkeypatch.setattr(ServerOptions, "client", lambda _: client)
        schema = arrow_schema(schema_of(Mode.CURRENT))
        work = ServerWork(ServerOptions(server="h:1"))
        batches = server_batches(work, schema, Selection.of(filters))
        return [row for batch in batches for row in batch.to_pylist()]

    return rows


@pytest.mark.parametrize(
    ("timestamp_ms", "time"),
    [
        (1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)),
        (253_402_300_800_000, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        ((1 << 63) - 1, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        (None, None),
        (-1, None),
    ],
)
def test_times_are_those_that_the_folder_would_give(
    timestamp_ms: int | None, time: datetime | None, read: Any
) -> None:
    [row] = read(Exporting({"expire_timestamp_ms": timestamp_ms}))
    assert row["expire_time"] == time


@pytest.mark.parametrize(
    ("pushed", "topics"),
    [
        (EqualTo(("topic",), "orders"), ["orders"]),
        (In(("topic",), ("", "orders", "x" * 250, "𝄞" * 125)), ["orders"]),
        (EqualTo(("topic",), ""), []),
        (EqualTo(("topic",), "x" * 250), []),
    ],
)
def test_a_topic_that_cannot_be_is_in_no_row(pushed: Filter, topics: list[str], read: Any) -> None:
    client = Exporting({"topic": "orders"}, {"topic": "payments"})
    assert [row["topic"] for row in read(client, pushed)] == topics


@pytest.mark.parametrize(("group", "count"), [("g", 1), ("h", 0), ("", 0), ("x" * 32_768, 0)])
def test_a_group_that_is_not_there_is_in_no_row(group: str, count: int, read: Any) -> None:
    assert len(read(Exporting({}), EqualTo(("group",), group))) == count


def test_a_prefix_holds_for_groups_of_a_server_too(read: Any) -> None:
    client = Exporting({"group": "billing"}, {"group": "shipping"}, {"group": "bill"})
    rows = read(client, StringStartsWith(("group",), "bill"))
    assert [row["group"] for row in rows] == ["billing", "bill"]

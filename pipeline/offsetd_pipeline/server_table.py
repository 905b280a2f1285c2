"""The offsets of a running server, as Arrow batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from offsetd_clients import GroupNotFound, InvalidRequest, OffsetClient, OffsetFormat
from pyspark.sql.datasource import InputPartition

from offsetd_pipeline.arrow_columns import record_batch, time_of
from offsetd_pipeline.writing.packed_rows import TOPIC_UNITS_MAX, utf16_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from offsetd_pipeline.selection import Selection
    from offsetd_pipeline.server_options import ServerOptions

_ROWS: Final = 10_000  # The number of rows in one batch.


class ServerWork(InputPartition):  # type: ignore[misc, unused-ignore]
    """A read of one server, by one task."""

    def __init__(self, server: ServerOptions) -> None:
        super().__init__(None)
        self.server = server


def server_batches(
    work: ServerWork, schema: pa.Schema, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """All committed offsets, or those of the selected groups and topics.

    Raises the client's errors. The rows before the error are then incomplete, and Spark drops them.
    """
    groups, topics = selection.values("group"), selection.values("topic")
    if topics is not None:
        topics = frozenset(filter(_can_be_topic, topics))
    if (groups is not None and not groups) or (topics is not None and not topics):
        return
    with work.server.client() as client:
        named = [each for each in sorted(groups or ()) if _is_there(client, each)]
        if groups is not None and not named:
            return
        pieces = client.export_offsets(OffsetFormat.JSONL, named, topics=sorted(topics or ()))
        rows: list[dict[str, Any]] = []
        for line in _lines(pieces):
            rows.append(_row(json.loads(line)))
            if len(rows) == _ROWS:
                yield record_batch(_selected(rows, selection), schema)
                rows = []
        if rows:
            yield record_batch(_selected(rows, selection), schema)


def _selected(rows: list[dict[str, Any]], selection: Selection) -> list[dict[str, Any]]:
    """The selected rows. An export selects whole names only: for a prefix it returns all groups."""
    mask = selection.among(("group", "topic")).mask(
        len(rows), lambda name: pa.array([row[name] for row in rows], pa.string())
    )
    return rows if mask is None else [row for row, held in zip(rows, mask, strict=True) if held]


def _is_there(client: OffsetClient, group_id: str) -> bool:
    """Whether a group exists.

    An export refuses unknown and invalid names, but a table simply has no rows for them.
    """
    try:
        client.get_group(group_id)
    except (GroupNotFound, InvalidRequest):
        return False
    return True


def _can_be_topic(name: str) -> bool:
    """Whether a text can be a topic's name. An export refuses others."""
    return 0 < utf16_units(name) <= TOPIC_UNITS_MAX


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _row(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "group": line["group"],
        "topic": line["topic"],
        "partition": line["partition"],
        "offset": line["offset"],
        "leader_epoch": line.get("leader_epoch"),
        "metadata": line.get("metadata"),
        "commit_time": _time(line.get("commit_timestamp_ms")),
        "expire_time": _time(line.get("expire_timestamp_ms")),
        "log_offset": line.get("revision"),
    }


def _time(timestamp_ms: int | None) -> datetime | None:
    return None if timestamp_ms is None else time_of(timestamp_ms)

"""The offsets that a running server has, as Arrow batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from offsetd_clients import GroupNotFound, OffsetClient, OffsetFormat
from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetd_pipeline.selection import Selection
    from offsetd_pipeline.server_options import ServerOptions

_ROWS: Final = 10_000  # In a batch.
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ServerWork(InputPartition):  # type: ignore[misc, unused-ignore]
    """One server, which one task asks."""

    def __init__(self, server: ServerOptions) -> None:
        super().__init__(None)
        self.server = server


def server_batches(
    work: ServerWork, schema: pa.Schema, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """All committed offsets, or those of the groups and topics that are selected.

    Raises what the client does; what came until then is not the whole, and Spark drops it.
    """
    groups, topics = selection.values("group"), selection.values("topic")
    if groups is not None and not groups:
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
                yield _batch(rows, schema)
                rows = []
        if rows:
            yield _batch(rows, schema)


def _is_there(client: OffsetClient, group_id: str) -> bool:
    """An export refuses a name that is no group's; of a table it is no row."""
    try:
        client.get_group(group_id)
    except GroupNotFound:
        return False
    return True


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
    )


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
    return None if timestamp_ms is None else _EPOCH + timedelta(milliseconds=timestamp_ms)

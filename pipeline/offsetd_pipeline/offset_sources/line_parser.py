"""Turns lines of files of offsets into columns. It does no I/O and runs in Spark's tasks.

The parser of each line is the one that the other migrations use. This module turns the results into
rows of `ROWS`: an offset, or a problem and its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from offsetd_clients.migration.values import Problem, ProblemKind
from offsetd_clients.migration.zookeeper.offset_file import parsed_line
from offsetd_storage.offsets_topic.offset_file_formats import (
    FileOffset,
    OffsetFormat,
    OffsetReader,
    Unreadable,
    read_line,
)

from offsetd_pipeline.offset_sources.source_kind import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_FORMATS: Final = {
    SourceKind.KAFKA_CSV: OffsetFormat.KAFKA_CSV,
    SourceKind.RPK: OffsetFormat.RPK,
    SourceKind.JSONL: OffsetFormat.JSONL,
}
LINE_KINDS: Final = (*_FORMATS, SourceKind.ZOOKEEPER)
"""The kinds of files with one offset in a line."""

NAMES: Final = (
    *("group", "topic", "partition", "offset", "leader_epoch", "metadata", "commit_time_ms"),
    *("problem_kind", "problem"),
)
PLACED: Final = (
    "group string, topic string, partition int, offset bigint, leader_epoch int, metadata string,"
    " commit_time_ms bigint, problem_kind string, problem string, place string"
)
"""The columns of all sources: an offset, or a problem.

The group is null if it cannot be read either. Another null means that the source does not have the
value. `place`: the place of a bad line, `FILE:LINE`.
"""

_TYPES: Final = {
    **dict.fromkeys(("partition", "leader_epoch"), pa.int32()),
    **dict.fromkeys(("offset", "commit_time_ms"), pa.int64()),
}
PLACED_ARROW: Final = pa.schema(
    [pa.field(name, _TYPES.get(name, pa.string())) for name in (*NAMES, "place")]
)

Row = tuple[Any, ...]
"""A row with the columns of `NAMES`."""


def reads_line(kind: SourceKind, line: bytes) -> bool:
    """Whether a line may be one of this kind."""
    if kind is SourceKind.ZOOKEEPER:
        return not isinstance(parsed_line(line, ""), Problem)
    told = read_line(_FORMATS[kind], 1, line)
    return told is not None and told.offset is not None


def rows_of_lines(
    kind: SourceKind, file_group: str, lines: Iterable[bytes], *, is_start: bool
) -> Iterator[tuple[int, Row]]:
    """Reads lines without their newlines; yields each row with its line number, which begins at 1.

    `is_start`: the first line is that of the file, and may begin with a byte order mark.
    """
    for number, line in enumerate(lines, 1):
        row = _line_row(kind, line, number if is_start else number + 1, file_group)
        if row is not None:
            yield number, row


def rows_of_document(file_group: str, content: bytes) -> Iterator[Row]:
    """The content of one JSON document of kafka-utils."""
    reader = OffsetReader(OffsetFormat.KAFKA_UTILS_JSON)
    try:
        for told in (*reader.feed(content), *reader.end()):
            yield _file_row(told.offset, told.problem, file_group)
    except Unreadable as error:
        yield _problem_row(None, str(error))


def placed_batch(rows: list[Row]) -> pa.RecordBatch:
    """Rows of `PLACED`."""
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, PLACED_ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=PLACED_ARROW)


def _line_row(kind: SourceKind, line: bytes, number: int, file_group: str) -> Row | None:
    if kind is SourceKind.ZOOKEEPER:
        text = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        return _zookeeper_row(text) if text.strip() else None
    told = read_line(_FORMATS[kind], number, line)
    if told is None:
        return None
    return _file_row(told.offset, told.problem, file_group, is_ours=kind is SourceKind.JSONL)


def _zookeeper_row(line: bytes) -> Row:
    parsed = parsed_line(line, "")
    if isinstance(parsed, Problem):
        return _problem_row(parsed.group_id, parsed.detail, parsed.kind)
    found = parsed.offset
    named = parsed.group_id, found.topic, found.partition, found.offset
    return (*named, None, None, None, None, None)


def _file_row(
    found: FileOffset | None, problem: str, file_group: str, *, is_ours: bool = False
) -> Row:
    if found is None:
        return _problem_row(file_group or None, problem)
    group = found.group or file_group
    if not group:
        return _problem_row(None, "the line does not say whose offset it is: --file-group does")
    if file_group and group != file_group:
        return _problem_row(group, f"{group!r} is not the group that is named: {file_group!r}")
    if not found.topic:
        return _problem_row(group, "the topic's name is empty")
    if found.must_not_exist or found.expected_revision >= 0:
        return _problem_row(group, "it has a precondition, which only an import takes")
    return (
        group,
        found.topic,
        found.partition,
        found.offset,
        found.leader_epoch if found.leader_epoch >= 0 else None,
        found.metadata if is_ours else None,
        found.commit_timestamp_ms if found.commit_timestamp_ms >= 0 else None,
        None,
        None,
    )


def _problem_row(group: str | None, problem: str, kind: ProblemKind = ProblemKind.BAD_VALUE) -> Row:
    return (group, *[None] * 6, str(kind), problem)

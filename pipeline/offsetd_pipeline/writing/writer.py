"""Writes offsets to a server: tasks pack their rows, the driver commits them, group by group."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from offsetd_pipeline.files import write_file
from offsetd_pipeline.writing.columns import WrittenColumns
from offsetd_pipeline.writing.commit_requests import RequestMaker
from offsetd_pipeline.writing.commit_sender import CommitSender
from offsetd_pipeline.writing.options import OnError, WriteOptions
from offsetd_pipeline.writing.outcome import (
    OffsetsRejected,
    UnfinishedWrite,
    WrittenOffsets,
    outcome_to_json,
)
from offsetd_pipeline.writing.packed_rows import PackedRows, TaskRows, unpacked
from offsetd_pipeline.writing.rejects import (
    DUPLICATE_ROW,
    GROUP_REJECTED,
    Rejection,
    Rejects,
    RejectsFile,
    rejects_schema,
)
from offsetd_pipeline.writing.written_groups import GroupedRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from offsetd_pipeline.writing.written_groups import GroupRows

_QUERY_ID: Final = "sql.streaming.queryId"
"""The property in which Spark gives tasks the id of their query. A restart does not change it."""
_NOTHING: Final = WrittenOffsets(
    group_count=0, offset_count=0, rejected_group_count=0, rejected_offset_count=0
)
_ALONG: Final = Rejection(GROUP_REJECTED, "another row of its group is rejected")
_TWICE: Final = Rejection(
    DUPLICATE_ROW,
    "another row has the same group, topic and partition, and none of them is the latest (latest_by"
    " names a column that tells)",
)
_log: Final = logging.getLogger(__name__)


class OffsetdWriter(DataSourceArrowWriter):
    """Writes a batch. Nothing is written if one of its tasks fails."""

    def __init__(self, options: WriteOptions, columns: WrittenColumns) -> None:
        self._options = options
        self._columns = columns
        self._name = options.named()  # It is set here, so that the tasks and the commit share it.

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Checks and packs a task's rows."""
        return _packed(iterator, self._columns)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Writes all rows. Raises OffsetsRejected, UnfinishedWrite."""
        write_packed(self._options, self._columns, self._name, messages)


class OffsetdStreamWriter(DataSourceStreamArrowWriter):
    """Writes a streaming query: one batch is written before the next one begins."""

    def __init__(self, options: WriteOptions, columns: WrittenColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Checks and packs a task's rows, with the id of their query."""
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
        assert query_id, "Spark tells tasks of a stream which query they are of"
        return _packed(iterator, self._columns, query_id)

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803  Spark's name
    ) -> None:
        """Writes a batch, for the first time or again."""
        for message in messages:
            if isinstance(message, PackedRows):
                name = f"{message.query_id}-{batchId}"
                write_packed(self._options, self._columns, name, messages)
                return


def batch_writer(given: dict[str, str], schema: StructType, *, overwrite: bool) -> OffsetdWriter:
    """The writer of `df.write`. Raises ValueError."""
    return OffsetdWriter(*_checked(given, schema, "mode('append')", overwrite=overwrite))


def stream_writer(
    given: dict[str, str], schema: StructType, *, overwrite: bool
) -> OffsetdStreamWriter:
    """The writer of `df.writeStream`. Raises ValueError."""
    checked = _checked(
        given,
        schema,
        "outputMode('append'), or call write_offsets in foreachBatch",
        overwrite=overwrite,
    )
    if checked[0].job_id is not None:
        raise ValueError("a streaming query has an id of its own, in its checkpoint: no job_id")
    return OffsetdStreamWriter(*checked)


def write_packed(
    options: WriteOptions,
    columns: WrittenColumns,
    name: str,
    messages: Iterable[WriterCommitMessage | None],
) -> None:
    """Commits the packed rows of tasks, in a write of that name.

    Raises OffsetsRejected, if rejects must be an error, and UnfinishedWrite. If an outcome file is
    requested, it writes the outcome to this file instead, and raises neither.
    """
    outcome = _outcome_of(options, columns, name, messages)
    if options.outcome_file is not None:
        write_file(Path(options.outcome_file), outcome_to_json(outcome))
    elif isinstance(outcome, UnfinishedWrite):
        raise outcome
    elif outcome.rejected_offset_count:
        error = OffsetsRejected(outcome)
        if options.on_error is OnError.FAIL:
            raise error
        _log.warning("%s", error)


def _outcome_of(
    options: WriteOptions,
    columns: WrittenColumns,
    name: str,
    messages: Iterable[WriterCommitMessage | None],
) -> WrittenOffsets | UnfinishedWrite:
    packed = [each for each in messages if isinstance(each, PackedRows)]
    has_rows = any(each.rows is not None for each in packed)
    rejected = [unpacked(each.rejected) for each in packed if each.rejected is not None]
    if not has_rows and not rejected:
        return _NOTHING
    given = columns.given_schema
    file = None
    if options.rejects is not None:
        file = RejectsFile(options.rejects, f"rejected-{name}", rejects_schema(given))
    rejects = Rejects(given, file)
    for table in rejected:
        rejects.add_found(table)
    groups: Iterable[GroupRows] = ()
    superseded_count = 0
    if has_rows:
        groups = GroupedRows([unpacked(each.rows) for each in packed if each.rows is not None])
        superseded_count = groups.superseded_count
    with options.server.client(options.retry) as client:
        sender = CommitSender(client, RequestMaker(name, options.write_mode), rejects)
        send = sender.import_with_times if options.keep_commit_times else sender.commit
        try:
            send(_whole(groups, rejects))
        except UnfinishedWrite as error:
            return error
        finally:
            place = rejects.close()
    return WrittenOffsets(
        group_count=sender.group_count,
        offset_count=sender.offset_count,
        rejected_group_count=len(rejects.groups),
        rejected_offset_count=rejects.reasons.total(),
        reasons=dict(rejects.reasons.most_common()),
        superseded_offset_count=superseded_count,
        first_rejected=tuple(rejects.first),
        rejects=place,
    )


def _whole(groups: Iterable[GroupRows], rejects: Rejects) -> Iterator[GroupRows]:
    """Yields the groups without problems. Rejects the others."""
    found = frozenset(rejects.groups)
    for group in groups:
        if group.group_id in found:
            rejects.add_group(group, _ALONG)
        elif group.repeated:
            rejects.add_group(group, _ALONG, dict.fromkeys(group.repeated, _TWICE))
        else:
            yield group


def _packed(
    batches: Iterable[pa.RecordBatch], columns: WrittenColumns, query_id: str | None = None
) -> PackedRows:
    rows = TaskRows(columns)
    for batch in batches:
        rows.add(batch)
    return rows.packed(query_id)


def _checked(
    given: dict[str, str], schema: StructType, mode: str, *, overwrite: bool
) -> tuple[WriteOptions, WrittenColumns]:
    if overwrite:
        raise ValueError(
            f"offsets that are not in the table stay: say {mode}; what becomes of those that are"
            " is said by the option write_mode"
        )
    options = WriteOptions.of(given)
    columns = WrittenColumns.of(
        schema,
        options.write_mode,
        keep_commit_times=options.keep_commit_times,
        latest_by=options.latest_by,
    )
    return options, columns

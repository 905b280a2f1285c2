"""The stream reader, for the API of Spark 4.0 and 4.1 and for that of 4.2 and later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from offsetd_storage.disk.files import OsFiles
from pyspark.sql.datasource import DataSourceStreamReader

from offsetd_pipeline.streams.folder_stream import FolderStream
from offsetd_pipeline.streams.limits import Limit
from offsetd_pipeline.streams.positions import BEGUN, Positions
from offsetd_pipeline.streams.range_table import RangeWork, range_batches, works_of
from offsetd_pipeline.streams.server_stream import ServerStream, WatchWork, watched_batches
from offsetd_pipeline.tables import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from offsetd_pipeline.streams.options import StreamOptions

    Text = dict[str, Any]

try:
    from pyspark.sql.streaming import datasource as admission
except ImportError:  # Spark is older than 4.2.
    admission = None  # type: ignore[assignment]


class StreamSource(Protocol):
    """A source of changes. Positions are JSON."""

    def begin(self) -> Text:
        """The start of a new query."""

    def ends(self) -> Text:
        """The present end: all later records are after it."""

    def latest(self) -> Text:
        """The position up to which a stream could read now."""

    def bounded(self, start: Text, limit: Limit, until: Text | None) -> Text:
        """The end of a batch that begins at `start`: not after `until`, and within the limit."""

    def works(self, start: Text, end: Text) -> Sequence[InputPartition]:
        """The work of a batch's tasks."""

    def commit(self, end: Text) -> None:
        """Notes that a batch is done."""


class FolderSource:
    """A data folder as a source of changes."""

    def __init__(self, options: StreamOptions) -> None:
        self._stream = FolderStream(OsFiles(), options)
        self._range_bytes = options.range_bytes

    def begin(self) -> Text:
        """See `StreamSource`."""
        return self._stream.begin().text()

    def ends(self) -> Text:
        """See `StreamSource`."""
        return self._stream.ends().text()

    def latest(self) -> Text:
        """See `StreamSource`."""
        return self._stream.latest().text()

    def bounded(self, start: Text, limit: Limit, until: Text | None) -> Text:
        """See `StreamSource`."""
        bound = None if until is None else Positions.of(until)
        return self._stream.bounded(Positions.of(start), limit, bound).text()

    def works(self, start: Text, end: Text) -> Sequence[InputPartition]:
        """See `StreamSource`."""
        ranges = self._stream.ranges(Positions.of(start), Positions.of(end))
        return list(works_of(ranges, self._range_bytes))

    def commit(self, end: Text) -> None:
        """See `StreamSource`."""
        self._stream.commit(Positions.of(end))


class StreamReader(DataSourceStreamReader):
    """Plans on the driver and reads on the executors, which know only the options.

    Spark requests the start of a query again until its first batch is done. So the end of the first
    batch also records the start with which it was planned.
    """

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._source: StreamSource | None = None
        self._begun: Text | None = None
        self._start: Text | None = None
        self._until: Text | None = None

    @property
    def _changes(self) -> StreamSource:
        if self._source is None:
            is_folder = self._options.server is None
            self._source = (FolderSource if is_folder else ServerStream)(self._options)
        return self._source

    def initialOffset(self) -> Text:  # noqa: N802  Spark's names, here and below
        """The start of a new query."""
        self._begun = self._start = self._changes.begin()
        return self._begun

    def latestOffset(self, start: Text | None = None, limit: object = None) -> Text:  # noqa: N802
        """The end of the next batch.

        Versions before Spark 4.2 do not pass the arguments. Then `start` is the end of the last
        planned batch, and the limit is that of the options.
        """
        start = self._start if start is None else start
        # This happens before Spark 4.2, for the first batch of a new query, and for `availableNow`.
        if start is None:
            return self._changes.latest()
        bound = Limit.of(limit) if limit is not None else self._own_limit()
        end = self._changes.bounded(_plain(start), bound, self._until)
        if start == self._begun:
            return end | {BEGUN: start}
        return start if end == _plain(start) else end

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """The limit of the options."""
        records_max = self._options.records_per_trigger_max
        if records_max is None:
            return admission.ReadAllAvailable()
        return admission.ReadMaxRows(records_max)

    def reportLatestOffset(self) -> Text | None:  # noqa: N802
        """The present end of the log, for the query's progress."""
        return self._changes.ends()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limits this run to the present end of the log. The next run reads later records."""
        self._until = self._changes.ends()

    def partitions(self, start: Text, end: Text) -> Sequence[InputPartition]:
        """The work of each task of a batch."""
        self._start = end
        if start == end:
            return []
        return self._changes.works(_plain(end.get(BEGUN, start)), _plain(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        schema = arrow_schema(self._schema)
        if isinstance(partition, WatchWork):
            yield from watched_batches(partition, schema, self._options)
            return
        assert isinstance(partition, RangeWork), "what was planned is read"
        for each in partition.ranges:
            yield from range_batches(OsFiles(), each, schema, self._options)

    def commit(self, end: Text) -> None:
        """Notes that a batch is done: no later call needs records before its end."""
        self._changes.commit(_plain(end))

    def stop(self) -> None:
        """Ends the query."""
        self._source = None

    def _own_limit(self) -> Limit:
        return Limit(records_max=self._options.records_per_trigger_max)


def _plain(positions: Mapping[str, Any]) -> Text:
    return {name: each for name, each in positions.items() if name != BEGUN}


if admission is None:
    OffsetdStreamReader: type[StreamReader] = StreamReader
else:

    class _AvailableNow(StreamReader, admission.SupportsTriggerAvailableNow):
        """A stream reader for `availableNow` in Spark 4.2 and later.

        It reads the present records in batches, and ends.
        """

    OffsetdStreamReader = _AvailableNow

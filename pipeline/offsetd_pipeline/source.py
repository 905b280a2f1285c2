"""`format("offsetd")`: the offsets of offsetd, or of a Kafka broker, as Spark tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from offsetd_storage.disk.files import OsFiles
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from offsetd_pipeline.folder_plan import (
    FolderWork,
    divide,
    known_partition_count,
    partitions_of_groups,
)
from offsetd_pipeline.folder_tables import WHOLE_LOG_MODES, FolderTable
from offsetd_pipeline.folders import plan_folders
from offsetd_pipeline.read_options import NamedTable, OnDamage, ReadOptions
from offsetd_pipeline.selection import Selection, filters_of
from offsetd_pipeline.server_table import ServerWork, server_batches
from offsetd_pipeline.streams.options import StreamOptions
from offsetd_pipeline.streams.reader import OffsetdStreamReader
from offsetd_pipeline.streams.server_stream import ServerStream, WatchWork, watched_batches
from offsetd_pipeline.tables import Mode, arrow_schema, check_schema, schema_of
from offsetd_pipeline.writing.writer import batch_writer, stream_writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, MutableMapping, Sequence

    import pyarrow as pa
    from offsetd_storage.disk.files import Files
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        Filter,
    )
    from pyspark.sql.types import StructType

    from offsetd_pipeline.folder_plan import LogPlan
    from offsetd_pipeline.folders import FolderPlan
    from offsetd_pipeline.server_options import ServerOptions

NAME = "offsetd"
PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Registers `format("offsetd")` with a session."""
    spark.dataSource.register(OffsetdSource)


def pushes_filters(spark: SparkSession) -> bool:
    """Whether the session accepts the option `push_filters`."""
    return str(spark.conf.get(PUSHDOWN_SETTING, "false")).lower() == "true"


class OffsetdSource(DataSource):
    """The data source. For its options see `docs/guides/spark.md`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """The schema of the table that the options name."""
        named = NamedTable.of(self._given)
        return schema_of(named.mode, named.columns, has_folder_column=named.has_folder_column)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in `schema`, which may be a part of the table's."""
        options = ReadOptions.of(self._given)
        check_schema(options.mode, schema, has_folder_column=options.has_folder_column)
        return (FilteringReader if options.push_filters else OffsetdReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A stream reader of changes."""
        options = StreamOptions.of(self._given)
        check_schema(options.mode, schema)
        return OffsetdStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer that commits the rows of a table to a server."""
        return batch_writer(self._given, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """A writer that commits the rows of a query to a server, batch after batch."""
        return stream_writer(self._given, schema, overwrite=overwrite)


class OffsetdReader(DataSourceReader):
    """Plans on the driver, and reads on the executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._selection = Selection.of(filters_of(options.chosen))

    def partitions(self) -> Sequence[InputPartition]:
        """The work of each task. Log partitions without selected rows are left out."""
        if self._options.server is not None:
            return self._of_server(self._options.server)
        files = OsFiles()
        plans = plan_folders(
            files,
            map(Path, self._options.paths),
            is_wanted=self._selection.wants_partition,
        )
        works = divide(
            [log for plan in plans for log in self._with_wanted_groups(files, plan)],
            range_bytes=self._options.range_bytes,
            by_segment=self._options.mode not in WHOLE_LOG_MODES,
        )
        # Without partitions, Spark would read one that is None.
        return works or [FolderWork(())]

    def _of_server(self, server: ServerOptions) -> Sequence[InputPartition]:
        """One task reads the server.

        The history ends at the time of the plan, even if it is read later.
        """
        if self._options.mode is Mode.CURRENT:
            return [ServerWork(server)]
        stream = ServerStream(self._watching())
        return stream.works(stream.begin(), stream.ends())

    def _watching(self) -> StreamOptions:
        options = self._options
        return StreamOptions(
            mode=options.mode,
            server=options.server,
            fails_on_loss=options.on_damage is OnDamage.FAIL,
            chosen=options.chosen,
        )

    def _with_wanted_groups(self, files: Files, plan: FolderPlan) -> list[LogPlan]:
        groups = self._selection.values("group")
        if groups is None:
            return plan.logs
        said, named = self._options.offsets_partitions, plan.view.offsets_partitions
        if said is not None and said < named:
            raise ValueError(f"offsets_partitions is {said}, but {plan.view.folder} has {named}")
        count = said or known_partition_count(files, plan.view)
        numbers = partitions_of_groups(groups, count)
        return [each for each in plan.logs if numbers is None or each.log_partition in numbers]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        schema = arrow_schema(self._schema)
        if isinstance(partition, ServerWork):
            yield from server_batches(partition, schema, self._selection)
            return
        if isinstance(partition, WatchWork):
            yield from watched_batches(partition, schema, self._watching())
            return
        assert isinstance(partition, FolderWork), "what was planned is read"
        table = FolderTable(
            OsFiles(), self._options.mode, schema, self._selection, self._options.on_damage
        )
        for piece in partition.pieces:
            yield from table.batches(piece)


class FilteringReader(OffsetdReader):
    """A reader that uses Spark's filters to read less.

    Up to Spark 4.2, all queries of a table share its reader, and so the filters of the last query.
    Use it for tables that only one query uses.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Uses the filters that `Selection` understands. Spark applies all of them again."""
        self._selection = Selection.of([*filters_of(self._options.chosen), *filters])
        return filters

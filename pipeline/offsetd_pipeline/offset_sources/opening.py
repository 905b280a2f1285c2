"""A source as a table of offsets: read once, cached by Spark, with its problems reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
from offsetd_clients import RetryPolicy
from offsetd_clients.migration.values import OFFSET_MAX, PARTITION_MAX, MigrationError, ProblemKind
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegralType, StringType, TimestampNTZType, TimestampType
from pyspark.storagelevel import StorageLevel

from offsetd_pipeline.archive.archive_table import read_archive, state_of
from offsetd_pipeline.offset_sources.files_table import FILE_KINDS, file_rows
from offsetd_pipeline.offset_sources.source_kind import SourceKind
from offsetd_pipeline.offset_sources.source_names import BadSource, NamedSource
from offsetd_pipeline.server_options import ServerOptions
from offsetd_pipeline.source import pushes_filters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

KEY: Final = ("group", "topic", "partition")
_LISTED_MAX: Final = 20
_LOOK_TIMEOUT_S: Final = 10.0
TOLD_BESIDE: Final = ("metadata", "leader_epoch")
"""The values of an offset that not every source has, with the kinds that have them."""
_TELL_ALL: Final = (*(SourceKind.FOLDER, SourceKind.SERVER, SourceKind.ARCHIVE, SourceKind.JSONL),)


class BadLines(MigrationError):
    """Lines, or rows, of files are not offsets. The text names the first of them."""


@attrs.frozen(kw_only=True)
class SourceOptions:
    """The options of a source.

    `file_group`: the group of a file that does not name it.
    `skip_bad_lines`: count and report bad lines; otherwise they are an error.
    `groups`, `group_prefix`, `topics`: read only these.
    `connection`: the connection to servers, as options of `format("offsetd")`.
    """

    file_group: str = ""
    skip_bad_lines: bool = False
    groups: Sequence[str] = ()
    group_prefix: str = ""
    topics: Sequence[str] = ()
    connection: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class OffsetTable:
    """The content of a source. `rows` have the columns of `lines.PLACED`, and include problems.

    Spark caches them until `forget`. `bad_lines` are the first of `bad_line_count` skipped lines,
    `FILE:LINE: WHAT`. `double_count`: offsets beyond the first of a group, topic and partition.
    `tells`: the values of `TOLD_BESIDE` that the source has.
    """

    source: NamedSource
    rows: DataFrame
    offset_count: int
    bad_line_count: int
    bad_lines: tuple[str, ...]
    double_count: int
    tells: frozenset[str]

    @property
    def offsets(self) -> DataFrame:
        """group, topic, partition, offset, leader_epoch, metadata, commit_time.

        The offset is null if it cannot be decoded.
        """
        good = self.rows.where("topic is not null")
        return good.select(
            *(*KEY, "offset", "leader_epoch", "metadata"),
            sf.timestamp_millis("commit_time_ms").alias("commit_time"),
        )

    def forget(self) -> None:
        """Lets Spark drop the cached rows."""
        self.rows.unpersist()


def opened_source(
    spark: SparkSession, source: NamedSource, options: SourceOptions | None = None
) -> OffsetTable:
    """Reads all of a source. Raises BadSource, BadLines, OffsetdError, and Spark's errors."""
    options = options or SourceOptions()
    tells = frozenset(TOLD_BESIDE if source.kind in _TELL_ALL else ())
    located = source.from_anywhere
    if source.kind in FILE_KINDS:
        placed = file_rows(spark, source.kind, located.places, file_group=options.file_group)
    elif source.kind is SourceKind.PARQUET:
        placed, tells = _parquet_rows(spark, located)
    else:
        placed = _table_rows(spark, located, options)
    for condition in _conditions(options, keeps_null=True):
        placed = placed.where(condition)
    kept = placed.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _checked(source, kept, options, tells)
    except BaseException:
        kept.unpersist()
        raise


def _conditions(options: SourceOptions, *, keeps_null: bool) -> list[Column]:
    """The conditions of the selection.

    `keeps_null` keeps problems whose group is not known, so that they are reported.
    """
    conditions = []
    if options.groups:
        conditions.append(("group", sf.col("group").isin(*options.groups)))
    if options.group_prefix:
        conditions.append(("group", sf.col("group").startswith(options.group_prefix)))
    if options.topics:
        conditions.append(("topic", sf.col("topic").isin(*options.topics)))
    return [sf.col(name).isNull() | each if keeps_null else each for name, each in conditions]


def _checked(
    source: NamedSource,
    kept: DataFrame,
    options: SourceOptions,
    tells: frozenset[str],
) -> OffsetTable:
    [(offset_count, bad_count)] = kept.agg(sf.count("topic"), sf.count("place")).collect()
    told: tuple[str, ...] = ()
    if bad_count:
        first = kept.where("place is not null").select("place", "problem").limit(_LISTED_MAX)
        told = tuple(f"{each.place}: {each.problem}" for each in first.collect())
        if not options.skip_bad_lines:
            more = bad_count - len(told)
            raise BadLines(
                "\n".join((*told, *([f"and {more:,} more"] if more else ())))
                + "\n--skip-bad-lines passes over them; --report FOLDER then has all of them"
            )
    return OffsetTable(
        source=source,
        rows=kept,
        offset_count=offset_count,
        bad_line_count=bad_count,
        bad_lines=told,
        double_count=_double_count(source, kept, offset_count),
        tells=tells,
    )


def write_bad_lines(table: OffsetTable, folder: Path) -> None:
    """Writes `place` and `problem` of all skipped lines, as a folder of Parquet."""
    rows = table.rows.where("place is not null").select("place", "problem")
    rows.write.mode("overwrite").parquet(str(folder.absolute()))


def _double_count(source: NamedSource, kept: DataFrame, offset_count: int) -> int:
    """The number of duplicates. A table of one log, or of a server, has none."""
    if source.kind in (SourceKind.SERVER, SourceKind.ARCHIVE) or (
        source.kind is SourceKind.FOLDER and len(source.places) == 1
    ):
        return 0
    good = kept.where("topic is not null").groupBy(*KEY).agg(sf.lit(1))
    return int(offset_count - good.count())


def _check_files(table: DataFrame, source: NamedSource) -> None:
    """Checks the names of files: Spark even skips given names that begin with `_` or `.`."""
    if not table.inputFiles():
        raise BadSource(
            f"{source}: no file that Spark reads (it skips names that start with _ or .)"
        )


def _parquet_rows(spark: SparkSession, source: NamedSource) -> tuple[DataFrame, frozenset[str]]:
    table = spark.read.parquet(*source.places)
    _check_files(table, source)
    types = {field.name: field.dataType for field in table.schema.fields}
    missing = [name for name in (*KEY, "offset") if name not in types]
    if missing:
        raise BadSource(
            f"{source} has no column {missing[0]!r}: it needs group, topic, partition and offset,"
            " and may have leader_epoch, metadata and commit_time (or commit_time_ms)"
        )
    for name, kind in (
        *(("group", StringType), ("topic", StringType), ("metadata", StringType)),
        *(("partition", IntegralType), ("offset", IntegralType), ("leader_epoch", IntegralType)),
        *(("commit_time_ms", IntegralType), ("commit_time", (TimestampType, TimestampNTZType))),
    ):
        if name in types and not isinstance(types[name], kind):
            raise BadSource(f"{source}: column {name!r} is {types[name].simpleString()}")
    good = table.select(
        *("group", "topic"),
        *(sf.col(name).cast("bigint").alias(name) for name in ("partition", "offset")),
        _optional(types, "leader_epoch", "bigint"),
        _optional(types, "metadata", "string"),
        _commit_time_ms(types),
        sf.col("_metadata.file_path").alias("place"),
    )
    problem = _parquet_problem()
    placed = good.withColumn("problem", problem).select(
        sf.when(sf.length("group") > 0, sf.col("group")).alias("group"),
        _unless_bad("topic"),
        _unless_bad("partition", "int"),
        _unless_bad("offset"),
        _unless_bad("leader_epoch", "int"),
        _unless_bad("metadata"),
        _unless_bad("commit_time_ms"),
        sf.when(sf.col("problem").isNotNull(), sf.lit(str(ProblemKind.BAD_VALUE))).alias(
            "problem_kind"
        ),
        "problem",
        sf.when(sf.col("problem").isNotNull(), sf.col("place")).alias("place"),
    )
    return placed, frozenset(TOLD_BESIDE) & types.keys()


def _unless_bad(name: str, spark_type: str | None = None) -> Column:
    value = sf.when(sf.col("problem").isNull(), sf.col(name))
    return (value if spark_type is None else value.cast(spark_type)).alias(name)


def _optional(types: dict[str, Any], name: str, spark_type: str) -> Column:
    value = sf.col(name) if name in types else sf.lit(None)
    return value.cast(spark_type).alias(name)


def _commit_time_ms(types: dict[str, Any]) -> Column:
    if "commit_time" in types and "commit_time_ms" not in types:
        return sf.unix_millis(sf.col("commit_time").cast("timestamp")).alias("commit_time_ms")
    return _optional(types, "commit_time_ms", "bigint")


def _parquet_problem() -> Column:
    """The problem of a row that is not an offset; null if it is valid."""

    def outside(name: str, largest: int) -> Column:
        return sf.col(name).isNull() | ~sf.col(name).between(0, largest)

    shown = sf.to_json(sf.struct(*KEY, "offset"))
    rules = (
        (sf.coalesce(sf.length("group"), sf.lit(0)) == 0, "no group"),
        (sf.coalesce(sf.length("topic"), sf.lit(0)) == 0, "no topic"),
        (outside("partition", PARTITION_MAX), "no partition from 0"),
        (outside("offset", OFFSET_MAX), "no offset from 0"),
        (sf.col("leader_epoch").isNotNull() & outside("leader_epoch", PARTITION_MAX), "bad epoch"),
        (sf.col("commit_time_ms") < 0, "a commit time before 1970"),
    )
    problem = sf.lit(None).cast("string")
    for is_broken, what in reversed(rules):
        problem = sf.when(is_broken, sf.concat(sf.lit(f"{what}: "), shown)).otherwise(problem)
    return problem


def check_answers(source: NamedSource, options: SourceOptions) -> None:
    """Checks that a server answers, before Spark tasks wait for it and fail with long errors.

    Raises OffsetdError.
    """
    if source.kind is not SourceKind.SERVER:
        return
    server = ServerOptions.of({**options.connection, "server": source.places[0]})
    with server.client(RetryPolicy(timeout_s=_LOOK_TIMEOUT_S)) as client:
        client.get_server_info()


def _table_rows(spark: SparkSession, source: NamedSource, options: SourceOptions) -> DataFrame:
    reader = spark.read.format("offsetd").option("push_filters", pushes_filters(spark))
    if source.kind is SourceKind.SERVER:
        check_answers(source, options)
        table = reader.options(**options.connection).option("server", source.places[0]).load()
    elif source.kind is SourceKind.FOLDER:
        table = reader.load(list(source.places))
    else:
        assert source.kind is SourceKind.ARCHIVE, "of each kind is known how it is read"
        if len(source.places) > 1:
            raise BadSource(f"{source}: say one archive")
        table = state_of(read_archive(spark, source.places[0]))
    # Select here too, so that the folder, or the server, reads no more.
    for condition in _conditions(options, keeps_null=False):
        table = table.where(condition)
    is_bad = sf.col("offset").isNull()
    return table.select(
        *(*KEY, "offset", "leader_epoch", "metadata"),
        sf.unix_millis("commit_time").alias("commit_time_ms"),
        sf.when(is_bad, sf.lit(str(ProblemKind.UNREADABLE))).alias("problem_kind"),
        sf.when(
            is_bad, sf.concat_ws(":", sf.lit("the offset cannot be read of"), "topic", "partition")
        ).alias("problem"),
        sf.lit(None).cast("string").alias("place"),
    )

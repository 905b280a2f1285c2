"""Compares two sources: their differences, and the counts by kind and group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from offsetd_pipeline.comparison.differences import (
    CompareOptions,
    DifferenceKind,
    Ignored,
    differing,
)
from offsetd_pipeline.offset_sources import OffsetTable, opened_source
from offsetd_pipeline.offset_sources.opening import KEY

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from offsetd_pipeline.offset_sources import NamedSource, SourceOptions

GROUPS_LISTED: Final = 1000
ROWS_LISTED: Final = 1000
_ROWS_OF_PART: Final = 500_000
_IN_WORDS: Final = {Ignored.METADATA: "metadata", Ignored.LEADER_EPOCH: "leader epochs"}


@attrs.frozen(kw_only=True)
class Comparison:
    """The result. Spark caches `differences` until the end of the `with` block.

    `counts`: differences by kind.
    `same_count`: partitions that are equal in both.
    `groups`: for each group with differences, their number by kind and the largest distance.
    `by_group`: the first of `groups`, those with the most differing partitions.
    `farthest`: the rows with the largest distances.
    `not_compared`: values that one of the sources does not have.
    """

    a: OffsetTable
    b: OffsetTable
    options: CompareOptions
    differences: DataFrame
    groups: DataFrame
    counts: dict[DifferenceKind, int]
    same_count: int
    group_count: int
    by_group: pa.Table
    farthest: pa.Table
    not_compared: tuple[str, ...] = ()

    @property
    def difference_count(self) -> int:
        """The number of partitions that differ."""
        return sum(self.counts.values())

    @property
    def is_same(self) -> bool:
        """Whether there are no differences."""
        return not self.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.differences.unpersist()
        self.a.forget()
        self.b.forget()


def compare(
    spark: SparkSession,
    a: NamedSource,
    b: NamedSource,
    options: CompareOptions | None = None,
    *,
    source_options: SourceOptions | None = None,
) -> Comparison:
    """Compares two sources; each is read once. Raises BadSource, BadLines, and Spark's errors."""
    options = options or CompareOptions()
    table_a = opened_source(spark, a, source_options)
    try:
        table_b = opened_source(spark, b, source_options)
    except BaseException:
        table_a.forget()
        raise
    try:
        return compared(table_a, table_b, options)
    except BaseException:
        table_a.forget()
        table_b.forget()
        raise


def compared(a: OffsetTable, b: OffsetTable, options: CompareOptions) -> Comparison:
    """Compares two tables. Values that a source does not have are not compared."""
    untold = {
        each.source: [name for name in Ignored if name.column not in each.tells] for each in (a, b)
    }
    ignored = options.ignored.union(*untold.values())
    options = attrs.evolve(options, ignored=ignored)
    # The number of parts depends on the work; Spark's default is for larger machines.
    parts = 1 + max(a.offset_count, b.offset_count) // _ROWS_OF_PART
    parts = max(parts, a.rows.sparkSession.sparkContext.defaultParallelism)
    found = differing(
        a.offsets.repartition(parts, *KEY),
        b.offsets.repartition(parts, *KEY),
        options,
        may_repeat=bool(a.double_count or b.double_count),
    )
    found = found.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counted = found.groupBy("difference").agg(
            sf.count("*").alias("count"),
            sf.count("count_a").alias("in_a"),
        )
        rows = counted.collect()
        by_group = _by_group(found)
        partitions_of_a = a.offset_count - a.double_count
        return Comparison(
            a=a,
            b=b,
            options=options,
            differences=found,
            groups=by_group,
            counts={
                kind: row["count"]
                for kind in DifferenceKind
                for row in rows
                if row.difference == kind
            },
            same_count=partitions_of_a - sum(row.in_a for row in rows),
            group_count=by_group.count(),
            by_group=by_group.limit(GROUPS_LISTED).toArrow(),
            farthest=_farthest(found),
            not_compared=tuple(
                f"{source} does not tell {' and '.join(_IN_WORDS[each] for each in names)}"
                for source, names in untold.items()
                if names
            ),
        )
    except BaseException:
        found.unpersist()
        raise


def _by_group(found: DataFrame) -> DataFrame:
    kinds = [
        sf.count_if(sf.col("difference") == str(kind)).alias(str(kind).replace("-", "_"))
        for kind in DifferenceKind
    ]
    grouped = found.groupBy("group").agg(
        sf.count("*").alias("partitions"),
        *kinds,
        sf.max(sf.abs("offsets_between")).alias("offsets_between_max"),
    )
    return grouped.orderBy(sf.desc("partitions"), "group")


def _farthest(found: DataFrame) -> pa.Table:
    ordered = found.orderBy(
        sf.desc_nulls_last(sf.abs("offsets_between")), "group", "topic", "partition"
    )
    table: pa.Table = ordered.limit(ROWS_LISTED).toArrow()
    return table

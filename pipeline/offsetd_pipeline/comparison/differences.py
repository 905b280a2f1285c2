"""Finds the differences of two tables of offsets, by a join. Nothing is collected on the driver."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import functions as sf

from offsetd_pipeline.offset_sources.opening import KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class DifferenceKind(StrEnum):
    """The kind of a difference between A and B."""

    MISSING_IN_A = "missing-in-a"
    MISSING_IN_B = "missing-in-b"
    AHEAD = "ahead"  # B has a larger offset.
    BEHIND = "behind"  # B has a smaller offset.
    METADATA = "metadata"  # The same offset, with other metadata or another leader epoch.
    UNREADABLE = "unreadable"  # The offset of one table cannot be decoded.
    # One table has the offset more than once: it is not known which one counts.
    DUPLICATE = "duplicate"


class Ignored(StrEnum):
    """Values that are not compared."""

    METADATA = "metadata"
    LEADER_EPOCH = "leader-epoch"

    @property
    def column(self) -> str:
        """The name of the column."""
        return self.value.replace("-", "_")


@attrs.frozen(kw_only=True)
class CompareOptions:
    """`tolerance`: offsets up to this distance count as equal; their other values are ignored."""

    ignored: frozenset[Ignored] = frozenset()
    tolerance: int = 0


VALUES: Final = ("offset", "leader_epoch", "metadata", "commit_time")
"""The values of each side: the columns `offset_a`, `offset_b`, and so on."""


def differing(
    a: DataFrame, b: DataFrame, options: CompareOptions, *, may_repeat: bool = True
) -> DataFrame:
    """The differing rows: one for each group, topic and partition.

    The columns are group, topic, partition, difference, offset_a, offset_b, offsets_between, then
    pairs of leader epochs, metadata and commit times, and count_a, count_b: the number of rows with
    the offset. `offsets_between` is B minus A; null if one table has none. The values of duplicates
    are null. `may_repeat=False`: each table has each partition once, and this is not checked.
    """
    sides = (_side(a, "a", may_repeat=may_repeat), _side(b, "b", may_repeat=may_repeat))
    both = sides[0].join(sides[1], list(KEY), "full_outer")
    between = sf.col("offset_b") - sf.col("offset_a")
    is_several = sf.greatest("count_a", "count_b") > 1
    kinds = (
        (is_several, DifferenceKind.DUPLICATE),
        (sf.col("count_a").isNull(), DifferenceKind.MISSING_IN_A),
        (sf.col("count_b").isNull(), DifferenceKind.MISSING_IN_B),
        (sf.col("offset_a").isNull() & sf.col("offset_b").isNull(), None),
        (between.isNull(), DifferenceKind.UNREADABLE),
        (between > options.tolerance, DifferenceKind.AHEAD),
        (between < -options.tolerance, DifferenceKind.BEHIND),
        (between != 0, None),
        (_has_other(options.ignored), DifferenceKind.METADATA),
    )
    kind = sf.lit(None).cast("string")
    for holds, named in reversed(kinds):
        told = sf.lit(None if named is None else str(named)).cast("string")
        kind = sf.when(holds, told).otherwise(kind)
    pairs = [f"{name}_{side}" for name in VALUES[1:] for side in "ab"]
    return (
        both.withColumn("difference", kind)
        .where("difference is not null")
        .select(
            *(*KEY, "difference", "offset_a", "offset_b"),
            between.alias("offsets_between"),
            *pairs,
            *("count_a", "count_b"),
        )
    )


def _side(table: DataFrame, side: str, *, may_repeat: bool) -> DataFrame:
    if not may_repeat:
        values = [sf.col(name).alias(f"{name}_{side}") for name in VALUES]
        return table.select(*KEY, *values, sf.lit(1).alias(f"count_{side}"))
    is_one = sf.count("*") == 1
    return table.groupBy(*KEY).agg(
        *(sf.when(is_one, sf.any_value(name)).alias(f"{name}_{side}") for name in VALUES),
        sf.count("*").cast("int").alias(f"count_{side}"),
    )


def _has_other(ignored: frozenset[Ignored]) -> Column:
    has_other = sf.lit(False)
    if Ignored.METADATA not in ignored:
        a, b = (sf.coalesce(sf.col(f"metadata_{side}"), sf.lit("")) for side in "ab")
        has_other |= a != b
    if Ignored.LEADER_EPOCH not in ignored:
        has_other |= ~sf.col("leader_epoch_a").eqNullSafe(sf.col("leader_epoch_b"))
    return has_other

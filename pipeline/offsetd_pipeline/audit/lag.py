"""The lag of groups, in records and in time, from samples of the ends of topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from offsetd_pipeline.plurals import counted
from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

    from offsetd_pipeline.audit.scope import AuditScope
    from offsetd_pipeline.audit.thresholds import Thresholds

_REQUIRED: Final = {"topic": "string", "partition": "int", "end_offset": "bigint"}
_OPTIONAL: Final = {"sampled_at": "timestamp"}
_PLACE: Final = ("topic", "partition")
VERDICTS: Final = ("stopped", "stalled", "rewind", "ahead")
"""Columns of `by_group`: the number of partitions with each verdict that is not OK."""


def read_end_offsets(spark: SparkSession, path: str, *, now: datetime) -> DataFrame:
    """Reads `topic`, `partition`, `end_offset`, `sampled_at` from a file.

    CSV with a header, Parquet, or JSON (an array, or `.jsonl`). Without `sampled_at`, the time of
    the samples is now. Raises ValueError, which names the problem or the invalid values.
    """
    match Path(path).suffix.lower():
        case ".csv":
            rows = spark.read.option("header", "true").csv(path)
        case ".parquet":
            rows = spark.read.parquet(path)
        case ".json":
            rows = spark.read.option("multiLine", "true").json(path)
        case ".jsonl":
            rows = spark.read.json(path)
        case suffix:
            raise ValueError(f"end offsets are read from .csv, .parquet, .json, .jsonl: {suffix!r}")
    missing = _REQUIRED.keys() - set(rows.columns)
    if missing:
        raise ValueError(f"{path} has no column {min(missing)!r}; it has {', '.join(rows.columns)}")
    if "sampled_at" not in rows.columns:
        rows = rows.withColumn("sampled_at", sf.lit(now))
    kinds = {**_REQUIRED, **_OPTIONAL}
    found = rows.select(*(sf.col(name).try_cast(kind).alias(name) for name, kind in kinds.items()))
    bad = found.where(" OR ".join(f"{name} IS NULL" for name in kinds)).count()
    if bad:
        raise ValueError(
            f"{path}: {counted(bad, 'row')} in which topic, partition, end_offset or sampled_at"
            " cannot be read"
        )
    return found


def lags(
    spark: SparkSession,
    scope: AuditScope,
    ends: DataFrame,
    partitions: DataFrame,
    thresholds: Thresholds,
) -> DataFrame:
    """The lag of each committed offset whose end is known.

    `lag` is by the newest sample, and not below 0. `time_lag_ms`: the time between that sample and
    the moment when the topic ended at the group's offset. It is interpolated between two samples.
    If the offset is before the first sample, it is a lower bound, and `is_at_least` is true. It is
    null if there is only one sample. `verdict`: see the guide. `partitions` are those of
    `commits.by_partition`.
    """
    current = scope.of_groups(spark, Mode.CURRENT, "group", *_PLACE, "offset", "commit_time")
    behind = current.where("offset IS NOT NULL").join(_stretches(ends), list(_PLACE))
    of_place = ("group", *_PLACE, "offset", "commit_time", *_OF_ALL_SAMPLES)
    rows = behind.groupBy(*of_place).agg(sf.max(_reached_ms()).alias("reached_ms"))
    rows = rows.withColumn("lag", sf.greatest(sf.col("end_offset") - sf.col("offset"), sf.lit(0)))
    rows = rows.withColumns(
        {"time_lag_ms": _time_lag_ms(), "is_at_least": sf.expr(_IS_BEFORE_FIRST)}
    )
    known = partitions.select("group", *_PLACE, "last_number", "change_number", "back_number")
    rows = rows.join(known, ["group", *_PLACE], "left")
    return rows.select(
        *("group", *_PLACE, "offset", "end_offset", "lag", "time_lag_ms", "is_at_least"),
        _verdict(thresholds).alias("verdict"),
        "commit_time",
        sf.timestamp_millis("sampled_ms").alias("sampled_at"),
    )


_OF_ALL_SAMPLES: Final = ("end_offset", "sampled_ms", "first_end", "first_ms")


def _stretches(ends: DataFrame) -> DataFrame:
    """The intervals between samples of a partition, with its newest and first sample."""
    order = Window.partitionBy(*_PLACE).orderBy("sampled_at", "end_offset")
    whole = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    samples = ends.select(
        *_PLACE, "sampled_at", "end_offset", sf.unix_millis("sampled_at").alias("from_ms")
    )
    return samples.select(
        *_PLACE,
        sf.col("end_offset").alias("end_from"),
        "from_ms",
        sf.lead("end_offset").over(order).alias("end_to"),
        sf.lead("from_ms").over(order).alias("to_ms"),
        sf.last("end_offset").over(whole).alias("end_offset"),
        sf.last("from_ms").over(whole).alias("sampled_ms"),
        sf.first("end_offset").over(whole).alias("first_end"),
        sf.first("from_ms").over(whole).alias("first_ms"),
    )


def _reached_ms() -> Column:
    """The time at which the topic ended at the offset, if that was within the interval."""
    offset, end_from, end_to = (sf.col(name) for name in ("offset", "end_from", "end_to"))
    part = (offset - end_from) / (end_to - end_from)
    reached = sf.col("from_ms") + part * (sf.col("to_ms") - sf.col("from_ms"))
    return sf.when((offset >= end_from) & (offset < end_to), reached.cast("bigint"))


_IS_BEFORE_FIRST: Final = "offset < first_end AND first_ms < sampled_ms"


def _time_lag_ms() -> Column:
    since = sf.when(sf.expr(_IS_BEFORE_FIRST), sf.col("first_ms")).otherwise(sf.col("reached_ms"))
    return sf.when(sf.col("lag") == 0, sf.lit(0)).otherwise(sf.col("sampled_ms") - since)


def _verdict(thresholds: Thresholds) -> Column:
    quiet_ms = sf.col("sampled_ms") - sf.unix_millis("commit_time")
    unchanged = sf.col("last_number") - sf.col("change_number") + 1
    return (
        sf.when(sf.col("offset") > sf.col("end_offset"), sf.lit("AHEAD"))
        .when(sf.col("lag") == 0, sf.lit("OK"))
        .when(quiet_ms > thresholds.stopped_ms, sf.lit("STOPPED"))
        .when(unchanged >= thresholds.stalled_commits_min, sf.lit("STALLED"))
        .when(sf.col("back_number") == sf.col("change_number"), sf.lit("REWIND"))
        .otherwise(sf.lit("OK"))
    )


def by_group(lags: DataFrame) -> DataFrame:
    """The total `lag` of a group, the largest of one partition, and the number of each verdict."""
    return lags.groupBy("group").agg(
        sf.count("*").alias("partitions"),
        sf.sum("lag").alias("lag"),
        sf.max("lag").alias("lag_max"),
        sf.max("time_lag_ms").alias("time_lag_max_ms"),
        *(sf.count_if(sf.col("verdict") == each.upper()).alias(each) for each in VERDICTS),
    )

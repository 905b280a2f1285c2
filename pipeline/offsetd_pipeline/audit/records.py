"""The content of the log: records and bytes by log partition, group, type and hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from offsetd_storage.offsets_topic.schemas.keys import GROUP_SETTINGS, OFFSET_RECORD_TYPES
from offsetd_storage.offsets_topic.schemas.record_layouts import RecordType
from pyspark.sql import functions as sf

from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

    from offsetd_pipeline.audit.scope import AuditScope

_OFFSET_TYPES: Final = sorted(map(int, OFFSET_RECORD_TYPES))
_KNOWN_TYPES: Final = sorted({*map(int, RecordType), GROUP_SETTINGS})
_DECODED: Final = ("record_type", "is_control", "is_tombstone", "group", "topic", "offset")

STRANGE: Final = pa.schema(
    [
        ("strange", pa.string()),
        ("record_type", pa.int32()),
        ("log_partition", pa.int32()),
        ("records", pa.int64()),
        ("disk_bytes", pa.int64()),
        ("first_log_offset", pa.int64()),
        ("first_time", pa.timestamp("us", tz="UTC")),
        ("last_time", pa.timestamp("us", tz="UTC")),
    ]
)


def by_group(spark: SparkSession, scope: AuditScope, future_from: datetime) -> DataFrame:
    """`records`, `disk_bytes`, `strange_records`, by `log_partition` and `group` (null if none).

    `future_records`: records with a timestamp or commit time later than `future_from`;
    `latest_time` is the latest of both.
    """
    columns = ("log_partition", "timestamp", "commit_time", "disk_bytes", *_DECODED)
    latest = sf.greatest("timestamp", "commit_time")
    rows = scope.records(spark, Mode.RAW, *columns)
    return rows.groupBy("log_partition", "group").agg(
        sf.count("*").alias("records"),
        sf.sum("disk_bytes").alias("disk_bytes"),
        sf.count_if(_what_is_strange().isNotNull()).alias("strange_records"),
        sf.count_if(latest > sf.lit(future_from)).alias("future_records"),
        sf.max(latest).alias("latest_time"),
    )


def strange_records(spark: SparkSession, scope: AuditScope) -> DataFrame:
    """A row for each `strange` (the kind), `record_type` and `log_partition`; see `STRANGE`."""
    columns = ("log_partition", "log_offset", "timestamp", "disk_bytes", "key", *_DECODED)
    rows = scope.records(spark, Mode.RAW, *columns)
    strange = sf.when(
        (_what_is_strange() == _UNKEYED) & sf.col("key").isNotNull(), sf.lit(_BAD_KEY)
    ).otherwise(_what_is_strange())
    found = rows.withColumn("strange", strange).where("strange IS NOT NULL")
    return found.groupBy("strange", "record_type", "log_partition").agg(
        sf.count("*").alias("records"),
        sf.sum("disk_bytes").alias("disk_bytes"),
        sf.min("log_offset").alias("first_log_offset"),
        sf.min("timestamp").alias("first_time"),
        sf.max("timestamp").alias("last_time"),
    )


_UNKEYED: Final = "unkeyed"
_BAD_KEY: Final = "undecodable key"


def _what_is_strange() -> Column:
    """The strange property of a record; null if it has none.

    A key too short for a type is `unkeyed` too.
    """
    is_offset = sf.col("record_type").isin(*_OFFSET_TYPES)
    return (
        sf.when(sf.col("is_control"), sf.lit(None))
        .when(sf.col("record_type").isNull(), sf.lit(_UNKEYED))
        .when(~sf.col("record_type").isin(*_KNOWN_TYPES), sf.lit("unknown type"))
        .when(sf.col("group").isNull() | (is_offset & sf.col("topic").isNull()), sf.lit(_BAD_KEY))
        .when(
            is_offset & ~sf.col("is_tombstone") & sf.col("offset").isNull(),
            sf.lit("undecodable value"),
        )
    )


def by_hour(
    spark: SparkSession,
    scope: AuditScope,
    complete_from: DataFrame,
    *,
    now: datetime,
    future_from: datetime,
) -> DataFrame:
    """`records`, `disk_bytes` by `log_partition` and `hour` (its beginning).

    `hour` is null for records without a timestamp, or with one in the future. `complete_time` is
    the earliest timestamp of the part that has all of its records: see `commits.commit_steps`.
    `unstamped_tombstones` are those that no cleaner has processed yet; the others have a horizon.
    `tombstones_that_may_go` have a horizon in the past. `next_horizon` is the earliest horizon in
    the future.
    """
    columns = ("log_partition", "log_offset", "timestamp", "is_tombstone", "is_control")
    rows = scope.records(spark, Mode.RAW, *columns, "delete_horizon", "disk_bytes")
    rows = rows.join(sf.broadcast(complete_from), "log_partition")
    hour = sf.when(
        sf.col("timestamp") <= sf.lit(future_from), sf.date_trunc("hour", sf.col("timestamp"))
    )
    is_tombstone = sf.col("is_tombstone") & ~sf.col("is_control")
    is_complete = sf.col("log_offset") >= sf.col("complete_from")
    horizon = sf.col("delete_horizon")
    return rows.groupBy("log_partition", hour.alias("hour")).agg(
        sf.count("*").alias("records"),
        sf.sum("disk_bytes").alias("disk_bytes"),
        sf.min("timestamp").alias("first_time"),
        sf.max("timestamp").alias("last_time"),
        sf.min(sf.when(is_complete, sf.col("timestamp"))).alias("complete_time"),
        sf.count_if(is_tombstone).alias("tombstones"),
        sf.sum(sf.when(is_tombstone, sf.col("disk_bytes"))).alias("tombstone_bytes"),
        sf.count_if(is_tombstone & horizon.isNull()).alias("unstamped_tombstones"),
        sf.count_if(is_tombstone & (horizon <= sf.lit(now))).alias("tombstones_that_may_go"),
        sf.min(sf.when(is_tombstone & (horizon > sf.lit(now)), horizon)).alias("next_horizon"),
    )

"""Analyses commits in order: their number and gaps, repeats, rewinds and skips.

The log is read once. Each commit is compared with the previous one of its partition. The same pass
adds up the results by partition, and by group and gap, rounded to two digits. Few rows remain.
Everything else is computed from them. The answers cover only the part of each log that has all of
its records: in a cleaned part, a commit may follow one that was not its predecessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from offsetd_pipeline.audit.thresholds import SPEED_GAP_MS_MIN
from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.window import WindowSpec

    from offsetd_pipeline.audit.scope import AuditScope
    from offsetd_pipeline.audit.thresholds import Thresholds

_KEY: Final = ("group", "topic", "partition")
_COLUMNS: Final = (
    *("log_partition", "log_offset", "timestamp", "kind", "transaction"),
    *(*_KEY, "offset", "disk_bytes"),
)
_MS_AN_HOUR: Final = 3_600_000


def commit_steps(
    spark: SparkSession, scope: AuditScope, complete_from: DataFrame, thresholds: Thresholds
) -> DataFrame:
    """Adds up the commits: see the module.

    `is_of_partition` distinguishes the two kinds of rows.

    For each `group`, `topic`, `partition`, `log_partition`:

    * `commits`, `commit_bytes`; of these `repeats`, `repeat_bytes`; `gap_max_ms`, the longest time
      since the previous commit (none for the first one and after a deletion); `first_time`,
      `last_time`;
    * commits are numbered from 1: `last_number`; `change_number` of the last that changed the
      offset; `back_number` of the last that went back;
    * a rewind or a skip has its own row, with `event`, `log_offset`, `offset_before`,
      `offset`, which are null in other rows.

    For each `group`, `log_partition` and `gap_ms`, rounded to two digits: `gap_count`.

    `complete_from`: by `log_partition`, the log offset at which its complete part starts.
    """
    rows = scope.records(spark, Mode.HISTORY, *_COLUMNS)
    rows = rows.where("transaction IS NULL OR transaction = 'committed'")
    rows = rows.join(sf.broadcast(complete_from), "log_partition").where(
        "log_offset >= complete_from"
    )
    return _added_up(_judged(_in_order(rows), thresholds))


def _in_order(rows: DataFrame) -> DataFrame:
    """Each commit with the previous one.

    Deletions are left out; a commit after a deletion has no previous one.
    """
    rows = rows.select(
        *_KEY,
        "log_partition",
        "log_offset",
        sf.unix_millis("timestamp").alias("time_ms"),
        (sf.col("kind") == "committed").alias("is_commit"),
        "offset",
        "disk_bytes",
        # Sorting by the hash first is fast. The other columns still distinguish rows with equal
        # hashes.
        sf.xxhash64(*_KEY).alias("hashed"),
    )
    before = _order()
    commit_ms = sf.when(sf.col("is_commit"), sf.col("time_ms"))
    return (
        rows.select(
            "*",
            sf.lag("offset").over(before).alias("offset_before"),
            sf.lag(commit_ms).over(before).alias("time_before"),
            sf.count_if("is_commit").over(before.rowsBetween(_FIRST, 0)).alias("number"),
        )
        .withColumn("step", sf.col("offset") - sf.col("offset_before"))
        .withColumn("exact_gap_ms", sf.col("time_ms") - sf.col("time_before"))
    )


_FIRST: Final = Window.unboundedPreceding


def _order() -> WindowSpec:
    return Window.partitionBy("hashed", *_KEY).orderBy("log_offset")


def _judged(rows: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Adds `event`: `rewind`, `skip`, or null."""
    forward = sf.when(sf.col("step") > 0, sf.col("step"))
    speed = forward * 1000 / sf.greatest("exact_gap_ms", sf.lit(SPEED_GAP_MS_MIN))
    earlier = _order().rowsBetween(_FIRST, -1)
    rows = rows.withColumn("speed", speed)
    rows = rows.select(
        "*",
        sf.max("speed").over(earlier).alias("fastest"),
        sf.count("speed").over(earlier).alias("steps"),
    )
    is_skip = (
        (sf.col("step") >= thresholds.skip_min)
        & (sf.col("steps") >= thresholds.skip_steps_min)
        & (sf.col("speed") > thresholds.skip_factor * sf.col("fastest"))
    )
    event = sf.when(sf.col("step") <= -thresholds.rewind_min, sf.lit("rewind")).when(
        is_skip, sf.lit("skip")
    )
    return rows.where("is_commit").withColumn("event", event)


_OF_EVENTS: Final = ("log_offset", "offset_before", "offset")
_OF_PARTITION: Final = ("hashed", *_KEY, "log_partition", "event", *_OF_EVENTS)
_OF_GAP: Final = ("group", "log_partition", "gap_ms")


def _added_up(rows: DataFrame) -> DataFrame:
    is_event = sf.col("event").isNotNull()
    is_repeat = sf.col("step") == 0
    number = sf.col("number")
    of_events = {name: sf.when(is_event, sf.col(name)) for name in _OF_EVENTS}
    rows = rows.withColumns({"gap_ms": two_digits(sf.col("exact_gap_ms")), **of_events})
    by_both = rows.groupingSets([_OF_PARTITION, _OF_GAP], *_OF_PARTITION, "gap_ms")
    found = by_both.agg(
        (sf.grouping("gap_ms") == 1).alias("is_of_partition"),
        sf.count("*").alias("commits"),
        sf.sum("disk_bytes").alias("commit_bytes"),
        sf.count_if(is_repeat).alias("repeats"),
        sf.sum(sf.when(is_repeat, sf.col("disk_bytes")).otherwise(0)).alias("repeat_bytes"),
        sf.max("exact_gap_ms").alias("gap_max_ms"),
        sf.timestamp_millis(sf.min("time_ms")).alias("first_time"),
        sf.timestamp_millis(sf.max("time_ms")).alias("last_time"),
        sf.max("number").alias("last_number"),
        sf.max(sf.when(sf.col("step").isNull() | ~is_repeat, number)).alias("change_number"),
        sf.max(sf.when(sf.col("step") < 0, number)).alias("back_number"),
    )
    is_of_partition = sf.col("is_of_partition")
    gap_count = sf.when(~is_of_partition & sf.col("gap_ms").isNotNull(), sf.col("commits"))
    found = found.withColumn("gap_count", gap_count)
    # The counts are null in rows of the other kind, so that sums over all rows are correct.
    counts = ("commits", "commit_bytes", "repeats", "repeat_bytes")
    return found.withColumns({each: sf.when(is_of_partition, sf.col(each)) for each in counts})


def two_digits(value: Column) -> Column:
    """Milliseconds rounded to two digits: 1234 is 1200. Numbers below 100 stay."""
    digit = sf.greatest(sf.pow(sf.lit(10.0), sf.floor(sf.log10(value)) - 1), sf.lit(1.0))
    rounded = (sf.floor(value / digit + 0.5) * digit).cast("bigint")
    return sf.when(value <= 0, sf.lit(0)).otherwise(rounded)


def by_partition(steps: DataFrame) -> DataFrame:
    """A row for each group, topic and partition."""
    return steps.where("is_of_partition").groupBy(*_KEY).agg(*_sums(), *_numbers())


def by_group(steps: DataFrame) -> DataFrame:
    """A row for each group: its number of commits, and the gaps between commits of a partition."""
    partitions = sf.count_distinct("topic", "partition").alias("partitions")
    gaps = sf.percentile("gap_ms", sf.array(*map(sf.lit, (0.5, 0.9, 0.99))), sf.col("gap_count"))
    hours = (sf.unix_millis("last_time") - sf.unix_millis("first_time")) / _MS_AN_HOUR
    rows = steps.groupBy("group", "log_partition").agg(
        partitions, *_sums(), gaps.alias("gaps"), sf.max("gap_max_ms").alias("gap_max_ms")
    )
    return rows.select(
        *("group", "partitions", "commits"),
        sf.when(hours > 0, (sf.col("commits") - 1) / hours).alias("commits_an_hour"),
        *(
            # Rounded values may exceed the largest one.
            sf.least(sf.col("gaps")[place].cast("bigint"), "gap_max_ms").alias(f"gap_{name}_ms")
            for place, name in enumerate(("p50", "p90", "p99"))
        ),
        *("gap_max_ms", "commit_bytes", "repeats"),
        (sf.col("repeats") / sf.col("commits")).alias("repeat_ratio"),
        *("repeat_bytes", "rewinds", "skips", "first_time", "last_time", "log_partition"),
    )


def _sums() -> list[Column]:
    return [
        *(sf.sum(each).alias(each) for each in ("commits", "commit_bytes")),
        *(sf.sum(each).alias(each) for each in ("repeats", "repeat_bytes")),
        sf.count_if(sf.col("event") == "rewind").alias("rewinds"),
        sf.count_if(sf.col("event") == "skip").alias("skips"),
        sf.min("first_time").alias("first_time"),
        sf.max("last_time").alias("last_time"),
    ]


def _numbers() -> list[Column]:
    names = ("last_number", "change_number", "back_number")
    return [sf.max(each).alias(each) for each in names]


def gaps(steps: DataFrame) -> DataFrame:
    """The number of times that each `gap_ms` occurs, for all groups together."""
    rows = steps.where("gap_count IS NOT NULL").groupBy("gap_ms")
    return rows.agg(sf.sum("gap_count").alias("commits")).orderBy("gap_ms")


def events(steps: DataFrame) -> DataFrame:
    """Rewinds and skips: group, partition, time, offsets before and after, and distance."""
    return steps.where("event IS NOT NULL").select(
        "event",
        *_KEY,
        sf.col("last_time").alias("time"),
        *("offset_before", "offset"),
        (sf.col("offset") - sf.col("offset_before")).alias("distance"),
        sf.col("gap_max_ms").alias("gap_ms"),
        *("log_partition", "log_offset"),
    )

"""Groups that are about to lose offsets, by the rules of `docs/guides/expiry.md`.

These are the coordinator's rules, which the pipeline does not import; a property test compares
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from offsetd_pipeline.audit.thresholds import ExpiryBase
from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

    from offsetd_pipeline.audit.scope import AuditScope
    from offsetd_pipeline.audit.thresholds import Thresholds


def expiring_groups(
    spark: SparkSession, scope: AuditScope, thresholds: Thresholds, base: ExpiryBase, now: datetime
) -> DataFrame:
    """Groups with offsets that are `expired` (and still there) or `expiring` soon.

    `first_expiry`: the time when the first of them expires. `last_expiry`: the time when the last
    one expires; null if one does not expire.
    """
    offsets = scope.of_groups(
        spark, Mode.CURRENT, "group", "topic", "commit_time", "expire_time", "log_partition"
    )
    groups = scope.of_groups(
        spark,
        Mode.GROUPS,
        *("group", "type", "state", "protocol_type", "member_count", "members", "state_time"),
        *("retention_ms", "never_expires", "lease_holder"),
    )
    told = expiry_times(offsets.join(groups, "group"), thresholds.retention_ms, base)
    left_ms = sf.unix_millis("expires_at") - sf.unix_millis(sf.lit(now))
    soon_ms = sf.least(sf.lit(thresholds.expiry_warning_ms), sf.col("life_ms") / 2)
    is_soon = (left_ms > 0) & (left_ms <= soon_ms)
    rows = told.groupBy("group", "log_partition").agg(
        sf.first("state").alias("state"),
        sf.count("*").alias("offsets"),
        sf.count_if(left_ms <= 0).alias("expired"),
        sf.count_if(is_soon).alias("expiring"),
        sf.min("expires_at").alias("first_expiry"),
        sf.min(sf.when(is_soon, sf.col("expires_at"))).alias("next_expiry"),
        sf.when(sf.count("expires_at") == sf.count("*"), sf.max("expires_at")).alias("last_expiry"),
        sf.first("kept_ms").alias("retention_ms"),
        *(sf.first(each).alias(each) for each in _OF_GROUP),
    )
    rows = rows.where("expired > 0 OR expiring > 0")
    return rows.select(*(each for each in rows.columns if each != "log_partition"), "log_partition")


_OF_GROUP: Final = ("member_count", "protocol_type", "lease_holder")


def expiry_times(offsets: DataFrame, retention_ms: int, base: ExpiryBase) -> DataFrame:
    """Adds `expires_at` of each offset (null if never), `life_ms` since its commit, and `kept_ms`.

    The columns are those of `current` and `groups`. Leases are ignored, because the log does not
    say whether they are renewed.
    """
    kept_ms = sf.when(sf.col("never_expires"), sf.lit(None)).otherwise(
        sf.coalesce("retention_ms", sf.lit(retention_ms))
    )
    is_empty = sf.col("state") == "EMPTY"
    became_empty = sf.when(
        (sf.col("type") == "classic") & (sf.col("protocol_type") != "") & is_empty,
        sf.col("state_time"),
    )
    since = sf.greatest("commit_time", "became_empty")
    if base is ExpiryBase.KAFKA:
        since = sf.coalesce("became_empty", "commit_time")
    by_retention = sf.timestamp_millis(sf.unix_millis("since") + sf.col("kept_ms"))
    rows = offsets.withColumns({"kept_ms": kept_ms, "became_empty": became_empty})
    rows = rows.withColumn("since", since)
    stays = sf.col("never_expires") | ~_goes_in_state() | (~is_empty & _is_read())
    rows = rows.withColumn("expires_at", sf.when(~stays, sf.coalesce("expire_time", by_retention)))
    life_ms = sf.unix_millis("expires_at") - sf.unix_millis("since")
    return rows.withColumn("life_ms", life_ms).drop("became_empty", "since")


def _goes_in_state() -> Column:
    """Whether a group in its present state loses offsets of topics that no member reads.

    False if the group's record is unreadable.
    """
    is_consumer = sf.col("protocol_type").isin("", "consumer")
    goes = (
        (sf.col("type") == "consumer")
        | (sf.col("state") == "EMPTY")
        | ((sf.col("state") == "STABLE") & is_consumer)
    )
    return sf.col("state").isNotNull() & (sf.col("state") != "DEAD") & goes


def _is_read() -> Column:
    """Whether a member reads the topic. True for a member with unknown topics."""
    reads = sf.col("members.topics")
    says_nothing = sf.exists(reads, lambda topics: sf.size(topics) == 0)
    return says_nothing | sf.array_contains(sf.flatten(reads), sf.col("topic"))

"""All questions of an audit: one pass over the log's headers, three over its records."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC_LOG_CONFIG
from offsetd_storage.disk.files import OsFiles
from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as sf

from offsetd_pipeline.audit import commits, expiry, lag, records
from offsetd_pipeline.audit.cleaner_state import log_states
from offsetd_pipeline.audit.findings import findings_of
from offsetd_pipeline.audit.log_tables import growth, log_partition_table
from offsetd_pipeline.audit.result import Audit
from offsetd_pipeline.audit.thresholds import HISTORY_MS, ExpiryBase, Thresholds
from offsetd_pipeline.folder_plan import known_partition_count, partitions_of_groups, plan_folder
from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.tables import Mode, arrow_schema, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from offsetd_storage.configuration.log_config import LogConfig
    from pyspark.sql import Column, DataFrame, SparkSession

    from offsetd_pipeline.audit.scope import AuditScope

    Telling = Callable[[str], AbstractContextManager[object]]

ROWS_MAX: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def audit(
    spark: SparkSession,
    scope: AuditScope,
    *,
    now: datetime,
    thresholds: Thresholds | None = None,
    end_offsets: str | None = None,
    rows_max: int = ROWS_MAX,
    telling: Telling = lambda _: nullcontext(),
) -> Audit:
    """Answers all questions about a data folder. The session must know the format (`register`).

    `end_offsets`: a file of end offsets (`lag.read_end_offsets`). The worst `rows_max` rows of each
    table come to the driver. `telling(what)` is a context for the duration of each step. Raises
    ValueError for an invalid file of end offsets, StorageError and OSError for an invalid folder,
    and the errors of reading the tables.
    """
    asked = _Asked(
        spark=spark,
        scope=scope,
        now=now,
        thresholds=thresholds or Thresholds(),
        rows_max=rows_max,
        telling=telling,
    )
    return asked.answered(end_offsets)


@attrs.frozen(kw_only=True)
class _Asked:
    """One audit, with the answer to each question."""

    spark: SparkSession
    scope: AuditScope
    now: datetime
    thresholds: Thresholds
    rows_max: int
    telling: Telling
    row_counts: dict[str, int] = attrs.field(factory=dict)
    """The row counts of tables that do not have all their rows."""

    def answered(self, end_offsets: str | None) -> Audit:
        ends = None
        if end_offsets is not None:
            ends = lag.read_end_offsets(self.spark, end_offsets, now=self.now)
        base = self.thresholds.expiry_base or (
            ExpiryBase.KAFKA if self.scope.is_brokers else ExpiryBase.LATEST
        )
        states = self._log_states()
        complete_from = self._complete_from(states)
        found = {**_NOTHING, **self._of_commits(complete_from, ends)}
        found |= self._of_records()
        found |= self._of_logs(states, complete_from)
        found["expiring"], lost = self._expiring(base)
        found["damage"], damaged = self._damage()
        totals = _log_totals(found["log_partitions"]) | lost | damaged
        for name in ("commit_totals", "future_totals", "lag_totals"):
            totals |= found.pop(name)
        answered = Audit(
            now=self.now,
            scope=self.scope,
            thresholds=self.thresholds,
            expiry_base=base,
            totals=totals,
            row_counts=self.row_counts,
            findings=(),
            **found,
        )
        return attrs.evolve(answered, findings=tuple(findings_of(answered)))

    def _log_states(self) -> pa.Table:
        """The state of the log partitions of the chosen groups, if they are known."""
        files = OsFiles()
        view, logs = plan_folder(files, Path(self.scope.folder), is_wanted=lambda _: True)
        numbers = [each.log_partition for each in logs]
        if self.scope.groups and not self.scope.group_prefix:
            count = self.scope.offsets_partitions or known_partition_count(files, view)
            wanted = partitions_of_groups(self.scope.groups, count)
            numbers = [each for each in numbers if wanted is None or each in wanted]
        with self.telling("the cleaner's view of the logs"):
            return log_states(
                self.spark,
                self.scope.folder,
                numbers,
                config=self._log_config(),
                now_ms=_ms(self.now),
                on_damage=self.scope.on_damage,
            )

    def _log_config(self) -> LogConfig:
        limits = self.thresholds
        lag_ms = 0 if self.scope.is_brokers else HISTORY_MS
        if limits.compaction_lag_ms is not None:
            lag_ms = limits.compaction_lag_ms
        return attrs.evolve(
            OFFSETS_TOPIC_LOG_CONFIG,
            dirty_ratio_min=limits.dirty_ratio_max,
            compaction_lag_ms_min=lag_ms,
        )

    def _complete_from(self, states: pa.Table) -> DataFrame:
        """The log offset of each log at which its complete part starts.

        It is not known for a damaged log: then the whole log counts as complete.
        """
        rows = [(row["log_partition"], row["complete_from"] or 0) for row in states.to_pylist()]
        return self.spark.createDataFrame(rows, "log_partition int, complete_from bigint")

    def _of_commits(self, complete_from: DataFrame, ends: DataFrame | None) -> dict[str, Any]:
        steps = commits.commit_steps(self.spark, self.scope, complete_from, self.thresholds)
        steps = steps.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with self.telling("commits in their order"):
                partitions = commits.by_partition(steps)
                groups = commits.by_group(steps)
                found = {
                    "groups": self._worst("groups", groups, sf.col("commit_bytes").desc()),
                    "repeats": self._worst(
                        "repeats",
                        partitions.where("repeats > 0").select(*_REPEATS),
                        sf.col("repeat_bytes").desc(),
                    ),
                    "moves": self._worst(
                        "moves", commits.events(steps), sf.abs("distance").desc(), sf.col("time")
                    ),
                    "gaps": _table(commits.gaps(steps)),
                    "commit_totals": self._commit_totals(groups),
                }
            if ends is not None:
                with self.telling("lag"):
                    found |= self._of_lag(ends, partitions)
            return found
        finally:
            steps.unpersist()

    def _commit_totals(self, groups: DataFrame) -> dict[str, object]:
        names = ("commits", "commit_bytes", "repeats", "repeat_bytes", "rewinds", "skips")
        limits = self.thresholds
        repeats = (sf.col("repeats") >= limits.repeats_min) & (
            sf.col("repeat_ratio") >= limits.repeat_ratio_min
        )
        return _only_row(
            groups.agg(
                sf.count("*").alias("groups"),
                *(sf.coalesce(sf.sum(each), sf.lit(0)).alias(each) for each in names),
                sf.count_if(repeats).alias("repeating_groups"),
                sf.count_if(sf.col("rewinds") > 0).alias("groups_with_rewinds"),
                sf.count_if(sf.col("skips") > 0).alias("groups_with_skips"),
            )
        )

    def _of_lag(self, ends: DataFrame, partitions: DataFrame) -> dict[str, Any]:
        rows = lag.lags(self.spark, self.scope, ends, partitions, self.thresholds)
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        groups = lag.by_group(rows)
        is_late = sf.col("time_lag_max_ms") > self.thresholds.time_lag_max_ms
        counts = [sf.count_if(sf.col(each) > 0).alias(f"{each}_groups") for each in lag.VERDICTS]
        try:
            return {
                "lags": self._worst("lags", rows, sf.col("lag").desc()),
                "group_lags": self._worst("group_lags", groups, sf.col("lag").desc()),
                "lag_totals": _only_row(
                    groups.agg(*counts, sf.count_if(is_late).alias("late_groups"))
                ),
            }
        finally:
            rows.unpersist()

    def _expiring(self, base: ExpiryBase) -> tuple[pa.Table, dict[str, object]]:
        rows = expiry.expiring_groups(self.spark, self.scope, self.thresholds, base, self.now)
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        totals = [
            *(
                sf.count_if(sf.col(each) > 0).alias(f"{each}_groups")
                for each in ("expired", "expiring")
            ),
            sf.unix_millis(sf.min("next_expiry")).alias("next_expiry"),
        ]
        try:
            with self.telling("expiry"):
                told = self._worst("expiring", rows.drop("next_expiry"), sf.col("first_expiry"))
                found = _only_row(rows.agg(*totals))
                return told, found | {"next_expiry": _time_of(found["next_expiry"])}
        finally:
            rows.unpersist()

    def _of_records(self) -> dict[str, Any]:
        limit = self.now + timedelta(milliseconds=self.thresholds.future_ms)
        in_future = sf.coalesce(sf.sum("future_records"), sf.lit(0)).alias("future_records")
        future_groups = sf.count_if(
            (sf.col("future_records") > 0) & sf.col("group").isNotNull()
        ).alias("future_groups")
        with self.telling("records by group"):
            rows = records.by_group(self.spark, self.scope, limit)
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                is_strange = rows.where("strange_records > 0").limit(1).count()
                whole = sf.sum("disk_bytes").over(Window.partitionBy())
                hot = rows.withColumn("log_ratio", sf.col("disk_bytes") / whole)
                found = {
                    "hot_groups": self._worst(
                        "hot_groups",
                        hot.where("group IS NOT NULL").select(*_HOT),
                        sf.col("disk_bytes").desc(),
                    ),
                    "future": self._worst(
                        "future",
                        rows.where("future_records > 0").select(*_FUTURE),
                        sf.col("latest_time").desc(),
                    ),
                    "future_totals": _only_row(rows.agg(in_future, future_groups)),
                }
            finally:
                rows.unpersist()
        found["strange"] = records.STRANGE.empty_table()
        if is_strange:  # Most logs have no strange records; then this read is not needed.
            with self.telling("strange records"):
                strange = records.strange_records(self.spark, self.scope)
                # All rows are taken, because there are few.
                found["strange"] = _table(strange.orderBy(sf.col("records").desc()))
        return found

    def _of_logs(self, states: pa.Table, complete_from: DataFrame) -> dict[str, Any]:
        limit = self.now + timedelta(milliseconds=self.thresholds.future_ms)
        with self.telling("records by hour"):
            hours = _table(
                records.by_hour(
                    self.spark, self.scope, complete_from, now=self.now, future_from=limit
                )
            )
        partitions = log_partition_table(states, hours)
        return {
            "log_partitions": partitions,
            "hours": growth(hours, partitions, by_day=False),
            "days": growth(hours, partitions, by_day=True),
        }

    def _damage(self) -> tuple[pa.Table, dict[str, object]]:
        if self.scope.on_damage is OnDamage.FAIL:  # An earlier step has raised.
            nothing = arrow_schema(schema_of(Mode.DAMAGE)).empty_table()
            return nothing, {"damaged_places": 0, "damaged_bytes": 0}
        rows = self.scope.damage(self.spark).persist(StorageLevel.MEMORY_AND_DISK)
        totals = (
            sf.count("*").alias("damaged_places"),
            sf.coalesce(sf.sum("size_bytes"), sf.lit(0)).alias("damaged_bytes"),
        )
        try:
            with self.telling("damage"):
                told = self._worst("damage", rows, sf.col("size_bytes").desc())
                return told, _only_row(rows.agg(*totals))
        finally:
            rows.unpersist()

    def _worst(self, name: str, rows: DataFrame, *order: Column) -> pa.Table:
        found = _table(rows.orderBy(*order).limit(self.rows_max + 1))
        if found.num_rows > self.rows_max:  # Only then is a count worth another query.
            self.row_counts[name] = rows.count()
        return found.slice(0, self.rows_max)


_NOTHING: Final[dict[str, Any]] = {"lags": None, "group_lags": None, "lag_totals": {}}
_REPEATS: Final = (
    *("group", "topic", "partition", "commits", "repeats", "repeat_bytes"),
    *("first_time", "last_time"),
)
_HOT: Final = ("group", "log_partition", "records", "disk_bytes", "log_ratio")
_FUTURE: Final = ("group", "log_partition", "future_records", "latest_time")


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _time_of(time_ms: Any) -> datetime | None:
    return None if time_ms is None else _EPOCH + timedelta(milliseconds=time_ms)


def _only_row(rows: DataFrame) -> dict[str, object]:
    row = rows.first()
    assert row is not None, "an aggregate of everything has a row"
    return row.asDict()


def _table(rows: DataFrame) -> pa.Table:
    """All rows, with their times in UTC."""
    found = rows.toArrow()
    schema = [
        field.with_type(pa.timestamp("us", tz="UTC"))
        if pa.types.is_timestamp(field.type)
        else field
        for field in found.schema
    ]
    return found.cast(pa.schema(schema))


def _log_totals(log_partitions: pa.Table) -> dict[str, object]:
    names = (
        *("log_bytes", "records", "dirty_bytes", "saved_bytes", "rolled_saved_bytes"),
        *("tombstones", "tombstones_that_may_go", "tombstone_bytes"),
    )
    totals: dict[str, object] = {
        name: pc.sum(log_partitions.column(name)).as_py() or 0 for name in names
    }
    return totals | {
        "first_time": pc.min(log_partitions.column("first_time")).as_py(),
        "last_time": pc.max(log_partitions.column("last_time")).as_py(),
    }

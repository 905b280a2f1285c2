"""The scope of an audit: the tables of a folder, with the needed columns and rows."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.folder.folder_format import read_properties
from pyspark.sql import functions as sf

from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.source import NAME, pushes_filters
from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession


@attrs.frozen(kw_only=True)
class AuditScope:
    """A data folder, and the chosen part of it.

    The groups are those that are named, and those with the prefix; without either, all groups. The
    records have timestamps at or after `since` and before `until`. The current offsets are always
    those of all records.
    """

    folder: str
    groups: tuple[str, ...] = ()
    group_prefix: str = ""
    since: datetime | None = None
    until: datetime | None = None
    on_damage: OnDamage = OnDamage.FAIL
    offsets_partitions: int | None = None

    @property
    def is_of_some_groups(self) -> bool:
        """Whether some groups are left out."""
        return bool(self.groups or self.group_prefix)

    @property
    def is_brokers(self) -> bool:
        """Whether it is a broker's folder. Raises StorageError, OSError."""
        return read_properties(OsFiles(), Path(self.folder)) is None

    def records(self, spark: SparkSession, mode: Mode, *columns: str) -> DataFrame:
        """The rows of chosen records, also by time."""
        bounds = []
        if self.since is not None:
            bounds.append(sf.col("timestamp") >= sf.lit(self.since))
        if self.until is not None:
            bounds.append(sf.col("timestamp") < sf.lit(self.until))
        needed = ("timestamp",) if bounds else ()
        rows = _where_all(self.of_groups(spark, mode, *columns, *needed), bounds)
        return rows.select(*columns)

    def of_groups(self, spark: SparkSession, mode: Mode, *columns: str) -> DataFrame:
        """The rows of chosen groups, at any time."""
        needed = dict.fromkeys((*columns, "group") if self.is_of_some_groups else columns)
        reader = (
            spark.read.format(NAME)
            .option("mode", mode.value)
            .option("columns", ",".join(needed))
            .option("on_damage", self.on_damage.value)
            .option("push_filters", pushes_filters(spark))
        )
        if self.offsets_partitions is not None:
            reader = reader.option("offsets_partitions", self.offsets_partitions)
        wanted = []
        if self.groups:
            wanted.append(sf.col("group").isin(*self.groups))
        if self.group_prefix:
            wanted.append(sf.col("group").startswith(self.group_prefix))
        rows = reader.load(self.folder)
        return _where_all(rows, [reduce(or_, wanted)] if wanted else []).select(*needed)

    def damage(self, spark: SparkSession) -> DataFrame:
        """The parts of segments that are not a valid batch."""
        return spark.read.format(NAME).option("mode", Mode.DAMAGE.value).load(self.folder)


def _where_all(rows: DataFrame, conditions: list[Column]) -> DataFrame:
    return rows.where(reduce(and_, conditions)) if conditions else rows

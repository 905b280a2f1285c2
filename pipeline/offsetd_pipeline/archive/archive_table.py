"""Reads an archive as a table, and its state at a given time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.offsets_topic.placement import partition_of
from pyspark.sql import functions as F  # noqa: N812  As everybody calls it.

from offsetd_pipeline.archive.columns import SPARK_SCHEMA, VANISHED
from offsetd_pipeline.archive.manifests import ArchiveError, ArchiveFolder
from offsetd_pipeline.files import spark_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from offsetd_pipeline.archive.manifests import ArchivedFile, Gap, Manifest

_MICROSECONDS: Final = 1000  # Microseconds in a millisecond.
_KEY: Final = ("group", "topic", "partition")
_KEPT: Final = (
    "log_partition",
    "log_offset",
    "kind",
    "offset",
    "leader_epoch",
    "metadata",
    "commit_time",
    "expire_time",
)


@attrs.frozen(kw_only=True)
class GroupSelection:
    """The chosen offsets: those of these groups and topics. An empty field chooses all."""

    groups: tuple[str, ...] = ()
    group_prefix: str = ""
    topics: tuple[str, ...] = ()

    def takes_group(self, group: str) -> bool:
        """Whether a group may have chosen offsets. `groups` need not have the prefix."""
        if not self.groups and not self.group_prefix:
            return True
        is_prefixed = bool(self.group_prefix) and group.startswith(self.group_prefix)
        return group in self.groups or is_prefixed

    def condition(self) -> Column:
        """The condition for chosen rows."""
        meant = F.lit(True)
        if self.groups or self.group_prefix:
            meant = F.col("group").isin(*self.groups)
            if self.group_prefix:
                meant |= F.col("group").startswith(self.group_prefix)
        if self.topics:
            meant &= F.col("topic").isin(*self.topics)
        return meant

    def log_partitions(self, offsets_partitions: int | None) -> frozenset[int] | None:
        """The log partitions of the chosen offsets; None if they can be in any."""
        if not self.groups or self.group_prefix or offsets_partitions is None:
            return None
        return frozenset(partition_of(group, offsets_partitions) for group in self.groups)


ALL: Final = GroupSelection()


def read_archive(spark: SparkSession, archive: str | Path) -> DataFrame:
    """All archived rows: one for each record, and those of kind `vanished`.

    Raises ArchiveError, OSError.
    """
    folder = ArchiveFolder(Path(archive))
    manifests = manifests_of(folder)
    return rows_of(spark, folder, [file for each in manifests for file in each.files])


def manifests_of(folder: ArchiveFolder) -> list[Manifest]:
    """The manifests, at least one, after a check that all files exist.

    Raises ArchiveError, OSError.
    """
    manifests = folder.manifests()
    if not manifests:
        raise ArchiveError(f"{folder.path} is not an archive: it has no manifest")
    for manifest in manifests:
        folder.check_files(manifest)
    return manifests


def rows_of(
    spark: SparkSession, folder: ArchiveFolder, files: Collection[ArchivedFile]
) -> DataFrame:
    """The rows of files, with their day and log partition."""
    if not files:
        return spark.createDataFrame([], SPARK_SCHEMA)
    reader = spark.read.schema(SPARK_SCHEMA).option("basePath", str(folder.path.absolute()))
    return reader.parquet(*(spark_path(folder.path / each.path) for each in files))


def files_until(
    manifests: Iterable[Manifest], day: str | None, log_partitions: Collection[int] | None
) -> list[ArchivedFile]:
    """The files of these log partitions that may have records up to a day (any day if None)."""
    return [
        file
        for manifest in manifests
        for file in manifest.files
        if (day is None or file.day is None or file.day <= day)
        and (log_partitions is None or file.log_partition in log_partitions)
    ]


def state_of(rows: DataFrame, at_ms: int | None = None) -> DataFrame:
    """The offsets at a time, one row for each. If `at_ms` is None, at the end of the archive.

    `kind` is `committed` or, if the newest value cannot be decoded, `unreadable`. For each offset
    the record with the largest log offset counts, among those at `at_ms` or before. A record of a
    transaction counts since the transaction's commit, but never before the record's own time, even
    if the clocks disagree. A deletion counts since it was written.
    """
    is_deletion = F.col("kind") == "deleted"
    counts = rows.where(
        F.col("transaction").isNull() | (F.col("transaction") == "committed") | is_deletion
    )
    if at_ms is not None:
        time = F.when(is_deletion, F.col("timestamp")).otherwise(
            F.greatest("transaction_time", "timestamp")
        )
        until = F.timestamp_micros(F.lit(at_ms * _MICROSECONDS).cast("long"))
        counts = counts.where(time.isNull() | (time <= until))
    # A deletion that was not seen has the log offset of another record.
    place = F.struct(F.col("log_offset"), (F.col("kind") == VANISHED).cast("int").alias("vanished"))
    newest = counts.groupBy(*_KEY).agg(F.max_by(F.struct(*_KEPT), place).alias("newest"))
    found = newest.select(*_KEY, *(F.col(f"newest.{name}").alias(name) for name in _KEPT))
    return found.where(F.col("kind").isin("committed", "unreadable"))


def earliest_ms(manifests: Iterable[Manifest]) -> int | None:
    """The earliest timestamp of an archive."""
    times = (file.earliest_ms for manifest in manifests for file in manifest.files)
    return min((each for each in times if each is not None), default=None)


def damaged_bytes(manifests: Iterable[Manifest], log_partitions: Collection[int] | None) -> int:
    """The number of skipped bytes of logs. Bytes that several runs skipped count once."""
    met = {
        (damage.file, damage.position): damage.size_bytes
        for manifest in manifests
        for damage in manifest.damage
        if log_partitions is None or damage.log_partition in log_partitions
    }
    return sum(met.values())


def gaps_at(
    manifests: Sequence[Manifest], at_ms: int, log_partitions: Collection[int] | None
) -> list[Gap]:
    """The gaps that contain a time: the archive may lack commits of that time."""
    return [
        gap
        for manifest in manifests
        for gap in manifest.gaps
        if (gap.from_ms is None or gap.from_ms <= at_ms)
        and at_ms < gap.to_ms
        and (log_partitions is None or gap.log_partition in log_partitions)
    ]

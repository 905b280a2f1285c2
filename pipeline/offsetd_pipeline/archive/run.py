"""Runs `archive`: writes new records of data folders. At its end, all of them count at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from offsetd_storage.disk.files import OsFiles

from offsetd_pipeline.archive.archive_table import rows_of, state_of
from offsetd_pipeline.archive.columns import FILE_SCHEMA, VANISHED
from offsetd_pipeline.archive.day_files import DayFiles, by_day
from offsetd_pipeline.archive.live_keys import KEY_COLUMNS
from offsetd_pipeline.archive.log_run import LogFailure, LogRun, LogWork, archive_log
from offsetd_pipeline.archive.manifests import (
    RUNS,
    ArchiveError,
    ArchiveFolder,
    Manifest,
)
from offsetd_pipeline.files import make_folder, spark_path, sync_folder
from offsetd_pipeline.folder_plan import known_partition_count
from offsetd_pipeline.folders import identity_of, plan_folders
from offsetd_pipeline.read_options import OnDamage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from offsetd_pipeline.archive.log_run import HeldUp
    from offsetd_pipeline.archive.manifests import ArchivedFile, DamagedBytes, Gap
    from offsetd_pipeline.folder_plan import LogPlan
    from offsetd_pipeline.folders import FolderPlan

_MICROSECONDS: Final = 1000  # Microseconds in a millisecond.
_RUN_DIGITS: Final = 12


class GapFound(ArchiveError):
    """Records were removed before they were archived, and the caller asked for an error."""


@attrs.frozen(kw_only=True)
class Archived:
    """The result of a run. `manifest` is None if there was nothing new.

    `began`: log partitions archived for the first time; their gaps are records compacted before the
    archive began. `orphan_count`: files of earlier runs that were removed.
    """

    manifest: Manifest | None
    began: frozenset[int]
    held_up: tuple[HeldUp, ...]
    orphan_count: int

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps since the previous run."""
        found = () if self.manifest is None else self.manifest.gaps
        return tuple(gap for gap in found if gap.log_partition not in self.began)

    @property
    def vanished_count(self) -> int:
        """The number of rows that stand for deletions that the log no longer had."""
        files = () if self.manifest is None else self.manifest.files
        return sum(each.record_count for each in files if f"-{VANISHED}-" in each.path)

    @property
    def damage(self) -> tuple[DamagedBytes, ...]:
        """The skipped bytes."""
        return () if self.manifest is None else self.manifest.damage


def archive(
    spark: SparkSession,
    folders: Iterable[str | Path],
    to: str | Path,
    *,
    on_damage: OnDamage = OnDamage.FAIL,
    fail_on_gap: bool = False,
    reached: Callable[[str], object] = lambda _: None,
) -> Archived:
    """Archives the new records of data folders to `to`, up to open transactions.

    `folders` belong to one server, or to one Kafka cluster. The archive is created if it does not
    exist. The new records count all at once when the run returns, and each record counts once.
    `reached` is called with the name of each completed step. Raises ArchiveError (ArchiveBusy if
    another run writes to it, GapFound if `fail_on_gap`), StorageError, OSError.
    """
    folder = ArchiveFolder(Path(to))
    with folder.locked():
        # Executors may have another working directory.
        sources = [Path(each).absolute() for each in folders]
        run = _Run(spark, folder, sources, on_damage, reached)
        return run.run(fail_on_gap=fail_on_gap)


class _Run:
    def __init__(
        self,
        spark: SparkSession,
        folder: ArchiveFolder,
        sources: Sequence[Path],
        on_damage: OnDamage,
        reached: Callable[[str], object],
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._sources = sources
        self._on_damage = on_damage
        self._reached = reached
        self._id = uuid4().hex[:_RUN_DIGITS]
        self._time_ms = time.time_ns() // 1_000_000
        self._manifests = folder.manifests()
        self._before = self._manifests[-1] if self._manifests else None

    def run(self, *, fail_on_gap: bool) -> Archived:
        orphan_count = self._folder.remove_orphans(self._manifests)
        plans = plan_folders(OsFiles(), self._sources, is_wanted=lambda _: True)
        source = self._source_of(plans)
        logs = [log for plan in plans for log in plan.logs]
        self._check_all_there(logs)
        self._reached("planned")
        runs = self._log_runs(logs)
        self._reached("written")
        known = self._before.positions if self._before else {}
        archived = Archived(
            manifest=self._manifest(runs, plans, source),
            began=frozenset(run.log_partition for run in runs) - known.keys(),
            held_up=tuple(run.held_up for run in runs if run.held_up is not None),
            orphan_count=orphan_count,
        )
        if fail_on_gap and archived.gaps:
            raise GapFound(_gaps_told(archived.gaps))
        if archived.manifest is not None:
            self._make_durable(archived.manifest.files)
            self._reached("complete")
            self._folder.committed(archived.manifest)
            self._reached("committed")
        self._folder.remove_run_files()
        return archived

    def _source_of(self, plans: Sequence[FolderPlan]) -> str:
        """The source of the logs. Raises ArchiveError if it is not that of the archive."""
        found = {identity_of(OsFiles(), plan.view.folder): plan.view.folder for plan in plans}
        if not found:
            raise ArchiveError("name at least one data folder")
        if len(found) > 1:
            told = ", ".join(f"{folder} is of {each}" for each, folder in found.items())
            raise ArchiveError(f"an archive holds one server or one Kafka cluster: {told}")
        [source] = found
        if self._before is not None and self._before.source != source:
            raise ArchiveError(
                f"{self._folder.path} is the archive of {self._before.source}, and"
                f" {found[source]} is of {source}"
            )
        return source

    def _check_all_there(self, logs: Iterable[LogPlan]) -> None:
        known = self._before.positions.keys() if self._before else set()
        lacking = sorted(known - {log.log_partition for log in logs})
        if lacking:
            told = ", ".join(map(str, lacking))
            raise ArchiveError(
                f"log partitions {told} are archived, and none of the folders has them: name the"
                " folders of all nodes"
            )

    def _log_runs(self, logs: Iterable[LogPlan]) -> list[LogRun]:
        known = self._before.positions if self._before else {}
        works = [
            LogWork(
                log=log,
                position=known.get(log.log_partition),
                archive=str(self._folder.path.absolute()),
                run_id=self._id,
                time_ms=self._time_ms,
                on_damage=self._on_damage,
            )
            # The largest logs come first, so that no large log is left for the end.
            for log in sorted(logs, key=_log_bytes, reverse=True)
        ]
        tasks = self._spark.sparkContext.parallelize(works, max(len(works), 1))
        found = tasks.map(archive_log).collect()
        failures = [each.reason for each in found if isinstance(each, LogFailure)]
        if failures:
            raise ArchiveError("\n".join(failures))
        runs = [each for each in found if isinstance(each, LogRun)]
        return sorted(runs, key=lambda run: run.log_partition)

    def _manifest(
        self, runs: Sequence[LogRun], plans: Sequence[FolderPlan], source: str
    ) -> Manifest | None:
        """The manifest; None if it would have nothing new."""
        files = [file for run in runs for file in run.files]
        files += self._vanished([run for run in runs if run.keys_file is not None], files)
        self._reached("vanished")
        positions = {run.log_partition: run.position for run in runs}
        if self._before is not None and positions == self._before.positions and not files:
            return None
        return Manifest(
            number=len(self._manifests) + 1,
            run_id=self._id,
            time_ms=self._time_ms,
            source=source,
            folders=tuple(map(str, self._sources)),
            offsets_partitions=self._offsets_partitions(plans),
            positions=positions,
            files=tuple(files),
            gaps=tuple(run.gap for run in runs if run.gap is not None),
            damage=tuple(each for run in runs for each in run.damage),
        )

    def _offsets_partitions(self, plans: Sequence[FolderPlan]) -> int | None:
        if self._before is not None and self._before.offsets_partitions is not None:
            return self._before.offsets_partitions
        found = {known_partition_count(OsFiles(), plan.view) for plan in plans} - {None}
        return found.pop() if len(found) == 1 else None

    def _vanished(
        self, runs: Sequence[LogRun], files: Sequence[ArchivedFile]
    ) -> list[ArchivedFile]:
        """Rows for offsets that the archive has as current and the log no longer has."""
        if not runs:
            return []
        by_number = {run.log_partition: run for run in runs}
        earlier = [file for manifest in self._manifests for file in manifest.files]
        rows = rows_of(
            self._spark,
            self._folder,
            [file for file in (*earlier, *files) if file.log_partition in by_number],
        )
        key_files = [spark_path(self._folder.path / RUNS / str(run.keys_file)) for run in runs]
        there = self._spark.read.parquet(*key_files)
        gone = (
            state_of(rows)
            .select(*KEY_COLUMNS)
            .join(there, on=list(KEY_COLUMNS), how="left_anti")
            .toArrow()
            .sort_by([(name, "ascending") for name in KEY_COLUMNS])
        )
        return [
            file
            for number in sorted(set(gone.column("log_partition").to_pylist()))
            for file in self._written_vanished(by_number[number], gone)
        ]

    def _written_vanished(self, run: LogRun, gone: pa.Table) -> tuple[ArchivedFile, ...]:
        mine = gone.filter(pc.equal(gone.column("log_partition"), run.log_partition))
        time_ms = run.gap.to_ms if run.gap is not None else self._time_ms
        own = {
            "log_offset": pa.scalar(run.position.log_offset - 1, pa.int64()),
            "timestamp": pa.scalar(time_ms * _MICROSECONDS, FILE_SCHEMA.field("timestamp").type),
            "kind": pa.scalar(VANISHED),
        }
        columns = [
            mine.column(field.name)
            if field.name in KEY_COLUMNS
            else pa.repeat(own.get(field.name, pa.scalar(None, field.type)), mine.num_rows)
            for field in FILE_SCHEMA
        ]
        table = pa.table(columns, schema=FILE_SCHEMA)
        days = DayFiles(self._folder.path, run.log_partition, f"{self._id}-{VANISHED}")
        day = by_day(np.zeros(1, np.int64), np.array([time_ms]))[0][0]
        for batch in table.to_batches():
            days.add(day, batch)
        return days.close()

    def _make_durable(self, files: Iterable[ArchivedFile]) -> None:
        """Makes the parent folders durable. The files and their folders are already durable."""
        make_folder(self._folder.path)
        for day in {Path(file.path).parts[0] for file in files}:
            sync_folder(self._folder.path / day)
        sync_folder(self._folder.path)


def _log_bytes(log: LogPlan) -> int:
    return sum(segment.size_bytes for segment in log.segments)


def _gaps_told(gaps: Sequence[Gap]) -> str:
    return "\n".join(
        [
            f"log partition {gap.log_partition} lacks {gap.missing_count} log offsets between"
            f" {gap.begin_log_offset}, up to which it is archived, and {gap.end_log_offset}"
            for gap in gaps
        ]
    )

"""A bulk migration. Each of its steps may be killed and repeated.

The plan is made once. It has the revision of each offset that is stored at that time, and each
write has that revision as its precondition. So no offset is written twice, and no later write is
overwritten, even if the run is started several times or on several machines. The server decides;
the noted progress only saves time.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import attrs
from offsetd_clients import OffsetdError
from offsetd_clients.migration.differences import State
from offsetd_clients.migration.outcomes import MigrationStopped, Outcome
from offsetd_clients.migration.run_entries import retention_text
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.target import Target
from offsetd_clients.migration.values import MigrationError
from pyspark.sql import functions as sf

from offsetd_pipeline.files import make_folder, spark_path
from offsetd_pipeline.migration.plan_folder import (
    BAD_LINES,
    DRY_RUN,
    FOUND,
    OUTCOMES,
    PLAN,
    VERIFIED,
    FolderLock,
    PlanFolder,
    PlanHeader,
)
from offsetd_pipeline.migration.plan_rows import FOUND_NAMES, MEMBERS, MEMBERS_UNKNOWN
from offsetd_pipeline.migration.plan_tasks import (
    UnitSession,
    UnitWork,
    plan_unit,
    run_unit,
    verify_unit,
)
from offsetd_pipeline.migration.results import RunResult, VerifyResult
from offsetd_pipeline.offset_sources import SourceKind, opened_source, write_bad_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from offsetd_clients import Retention
    from pyspark.sql import DataFrame, SparkSession

    from offsetd_pipeline.offset_sources import NamedSource, OffsetTable, SourceOptions
    from offsetd_pipeline.server_options import ServerOptions

PARALLELISM: Final = 4
LISTED_MAX: Final = 1000
_UNIT_ROWS: Final = 50_000
_POLL_S: Final = 0.5
_TIMEOUT_S: Final = 60.0


class PlanMismatch(MigrationError):
    """The folder has the plan of another migration than the requested one."""


@attrs.frozen(kw_only=True)
class MigrationOptions:
    """The options of a migration, which have the meaning of those of `offsetd migrate`.

    `overwrite`: the states in which stored offsets are replaced; other such groups are refused.
    `allow_partial`: also move groups with problems.
    `force`: also move groups that had members. If `sets_retention`, `retention` is set for each
    group that has no retention of its own.
    `rate`: at most this many offsets a second.
    `parallelism`: the number of tasks that write at the same time.
    `timeout_s`: the timeout of a call to the server, with all its retries.
    """

    selection: Selection = attrs.field(factory=Selection)
    overwrite: frozenset[State] = frozenset()
    allow_partial: bool = False
    force: bool = False
    sets_retention: bool = True
    retention: Retention = "never"
    rate: float | None = None
    parallelism: int = PARALLELISM
    reason: str = ""
    is_audited: bool = True
    timeout_s: float = _TIMEOUT_S

    def of_plan(self, source_options: SourceOptions) -> dict[str, Any]:
        """The options that a plan depends on, as JSON."""
        selection = self.selection
        return {
            "include": list(selection.include),
            "exclude": list(selection.exclude),
            "include_topics": list(selection.include_topics),
            "exclude_topics": list(selection.exclude_topics),
            "renames": dict(selection.renames),
            "overwrite": sorted(self.overwrite),
            "allow_partial": self.allow_partial,
            "force": self.force,
            "retention": retention_text(self.retention) if self.sets_retention else "as-is",
            "file_group": source_options.file_group,
            "skip_bad_lines": source_options.skip_bad_lines,
        }


@contextmanager
def opened_migration(
    spark: SparkSession,
    source: NamedSource,
    server: ServerOptions,
    folder: Path,
    options: MigrationOptions,
    source_options: SourceOptions,
    *,
    report: Callable[[int, int, str], object] = lambda _done, _total, _what: None,
) -> Iterator[Migration]:
    """Opens the migration of a folder, for one process at a time.

    Raises BadPlanFolder, PlanMismatch, OSError.
    """
    plan_folder = PlanFolder(folder.absolute())
    with FolderLock(plan_folder):
        located = source.from_anywhere
        migration = Migration(spark, located, server, plan_folder, options, source_options, report)
        migration.check()
        yield migration


@attrs.define
class Migration:
    """The steps of a migration.

    Each raises MigrationError, OffsetdError, OSError, and Spark's errors.
    """

    spark: SparkSession
    source: NamedSource
    server: ServerOptions
    folder: PlanFolder
    options: MigrationOptions
    source_options: SourceOptions
    report: Callable[[int, int, str], object]
    header: PlanHeader | None = None

    def check(self) -> None:
        """Raises PlanMismatch if there is a plan of another migration."""
        self.header = self.folder.header()
        if self.header is None:
            return
        of_plan = {"source": self.header.source, "server": self.header.server}
        asked = {"source": str(self.source), "server": self.server.server}
        of_plan |= self.header.options
        asked |= self.options.of_plan(self.source_options)
        for name, value in asked.items():
            if of_plan.get(name) != value:
                raise PlanMismatch(
                    f"{self.folder.path} has a plan with {name} {of_plan.get(name)!r}, not"
                    f" {value!r}: name another folder"
                )

    @property
    def is_begun(self) -> bool:
        """Whether offsets of the plan may have been written."""
        return self.header is not None and self.folder.is_begun

    def plan(self) -> PlanHeader:
        """Reads the source and the server's offsets, and makes a plan.

        An earlier plan is replaced.

        Nothing is written to the server.
        """
        if self.is_begun:
            raise PlanMismatch(f"{self.folder.path}: its plan was begun: name another folder")
        self.folder.clear()
        self.header = None
        with ExitStack() as stack:
            self.report(0, 0, "reading the source")
            table = opened_source(self.spark, self.source, self.source_options)
            stack.callback(table.forget)
            if table.bad_line_count:
                write_bad_lines(table, self.folder.path / BAD_LINES)
            self._write_found(table)
            plan_id = str(uuid4())
            work = self._work(plan_id)
            units = self.folder.units(FOUND)
            told = self._tasks(PLAN, units, "planning", plan_unit, work)
            counts = _added(told.values())
            states = {state: counts[state] for state in map(str, State) if counts.get(state)}
            self.header = PlanHeader(
                plan_id=plan_id,
                created_ms=time.time_ns() // 1_000_000,
                source=str(self.source),
                server=self.server.server,
                options=self.options.of_plan(self.source_options),
                units={unit: self.folder.unit_bytes(PLAN, unit) for unit in units},
                group_count=counts.get("groups", 0),
                refused_group_count=counts.get("refused", 0),
                offset_count=sum(states.values()),
                counts=states,
                bad_line_count=table.bad_line_count,
                bad_lines=table.bad_lines,
            )
        self.folder.write_header(self.header)
        self.folder.clear_part(FOUND)
        return self.header

    def run(self, *, execute: bool) -> RunResult:
        """Writes the offsets of the plan, or asks the server to validate them."""
        begun_s = time.monotonic()
        header = self._planned()
        part = OUTCOMES if execute else DRY_RUN
        if not execute:
            self.folder.clear_part(DRY_RUN)
        make_folder(self.folder.path / part)
        done = self._done_units() if execute else set()
        units = [each for each in header.units if each not in done]
        work = self._work(header.plan_id)
        if self.options.rate is not None:
            work = attrs.evolve(work, rate=self.options.rate / self._parallelism(units))
        if execute:
            self.folder.begin()
        what = "writing" if execute else "asking the server"
        stopped_by = ""
        try:
            self._tasks(part, units, what, partial(run_unit, execute=execute), work)
        except MigrationStopped as error:
            stopped_by = str(error)
        return self._run_result(part, stopped_by, time.monotonic() - begun_s)

    def verify(self, *, allow_ahead: bool = False) -> VerifyResult:
        """Compares the server with the plan.

        `allow_ahead`: accept larger offsets of moved consumers.
        """
        begun_s = time.monotonic()
        header = self._planned()
        good = frozenset({State.EQUAL, State.AHEAD} if allow_ahead else {State.EQUAL})
        self.folder.clear_part(VERIFIED)
        work = self._work(header.plan_id)
        task = partial(verify_unit, good=good)
        told = self._tasks(VERIFIED, list(header.units), "verifying", task, work)
        rows = self._rows(VERIFIED)
        counts = {} if rows is None else _counts(rows, "state", "count")
        totals = _added(told.values())
        return VerifyResult(
            offset_count=totals.get("offsets", 0),
            ahead_count=totals.get("ahead", 0),
            counts=counts,
            differences=_first(rows),
            seconds=time.monotonic() - begun_s,
        )

    def planned(self) -> DataFrame | None:
        """The plan as a table with `plan_rows.PLAN_SCHEMA`; None if no offset was found."""
        return self._rows(PLAN)

    def outcomes(self, *, dry_run: bool = False) -> DataFrame | None:
        """The outcome of each group, with `plan_rows.OUTCOME_SCHEMA`; None if none is known."""
        return self._rows(DRY_RUN if dry_run else OUTCOMES)

    def bad_lines(self) -> DataFrame | None:
        """`place` and `problem` of the skipped lines; None if there were none."""
        return self._rows(BAD_LINES)

    def differences(self) -> DataFrame | None:
        """The findings of the last `verify`, with `plan_rows.DIFFERENCE_SCHEMA`."""
        return self._rows(VERIFIED)

    def _planned(self) -> PlanHeader:
        if self.header is None:
            raise PlanMismatch(f"{self.folder.path} has no plan")
        return self.header

    def _done_units(self) -> set[str]:
        """The units without refused groups. Refused groups are tried again."""
        rows = self._rows(OUTCOMES)
        if rows is None:
            return set()
        refused = rows.where(sf.col("outcome") == str(Outcome.REFUSED))
        names = refused.select(sf.col("_metadata.file_name")).distinct().collect()
        return set(self.folder.units(OUTCOMES)) - {name for (name,) in names}

    def _write_found(self, table: OffsetTable) -> None:
        """Writes the found offsets, in files of whole groups, by their new ids."""
        rows = table.rows.where("group is not null").select(
            sf.col("group").alias("source_group"), *FOUND_NAMES[2:]
        )
        if self.source.kind is SourceKind.FOLDER:
            rows = rows.unionByName(_with_members(self.spark, self.source.places))
        renames = self.options.selection.renames
        if renames:
            named = self.spark.createDataFrame(
                list(renames.items()), "source_group string, renamed string"
            )
            rows = rows.join(sf.broadcast(named), "source_group", "left")
            rows = rows.withColumn("group", sf.coalesce("renamed", "source_group"))
        else:
            rows = rows.withColumn("group", sf.col("source_group"))
        parts = 1 + table.offset_count // _UNIT_ROWS
        ordered = rows.select(*FOUND_NAMES).repartition(parts, "group")
        ordered = ordered.sortWithinPartitions("group", "source_group", "topic", "partition")
        target = str(self.folder.path.absolute() / FOUND)
        # One file for each part: a limit of rows would divide groups.
        ordered.write.mode("overwrite").option("maxRecordsPerFile", 0).parquet(target)

    def _work(self, plan_id: str) -> UnitWork:
        options = self.options
        with self.server.client() as client:
            listed = client.list_groups()
            retentions = {each.group_id: each.retention for each in listed if each.retention}
            default_retention = Target(client).default_retention()
        reason = options.reason or f"migration by plan {plan_id}"
        return UnitWork(
            folder=self.folder,
            server=self.server,
            plan_id=plan_id,
            selection=options.selection,
            overwrite=options.overwrite,
            allow_partial=options.allow_partial,
            force=options.force,
            has_members=self.source.kind is SourceKind.FOLDER,
            sets_retention=options.sets_retention,
            retention=options.retention,
            default_retention=default_retention,
            retentions=retentions,
            reason=reason if options.is_audited else "",
            is_audited=options.is_audited,
            timeout_s=options.timeout_s,
        )

    def _parallelism(self, units: Sequence[str]) -> int:
        cores = self.spark.sparkContext.defaultParallelism
        return max(1, min(self.options.parallelism, cores, len(units)))

    def _tasks(
        self,
        part: str,
        units: Sequence[str],
        what: str,
        task: Callable[[UnitSession, str], dict[str, int]],
        work: UnitWork,
    ) -> dict[str, dict[str, int]]:
        """Returns the tasks' result for each unit. Raises MigrationStopped if the server failed."""
        if not units:
            return {}
        make_folder(self.folder.path / part)
        before = len(self.folder.units(part)) if part == OUTCOMES else 0
        parts = self.spark.sparkContext.parallelize(units, self._parallelism(units))
        with self._watched(part, before, len(units), what):
            told = parts.mapPartitions(partial(_do_units, work, task)).collect()
        stopped = [error for _, _, error in told if error]
        if stopped:
            raise MigrationStopped(stopped[0])
        return {unit: counts for unit, counts, _ in told}

    @contextmanager
    def _watched(self, part: str, before: int, total: int, what: str) -> Iterator[None]:
        """Reports the number of files while tasks make them."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(_POLL_S):
                self.report(max(len(self.folder.units(part)) - before, 0), total, what)

        self.report(0, total, what)
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _rows(self, part: str) -> DataFrame | None:
        units = self.folder.units(part)
        paths = [spark_path(self.folder.path / part / each) for each in units]
        return self.spark.read.parquet(*paths) if paths else None

    def _run_result(self, part: str, stopped_by: str, seconds: float) -> RunResult:
        rows = self._rows(part)
        refused = None if rows is None else rows.where(sf.col("outcome") == str(Outcome.REFUSED))
        counted = {} if rows is None else _counts(rows, "outcome", "count")
        offsets = {} if rows is None else _counts(rows, "outcome", "offsets")
        return RunResult(
            is_dry_run=part == DRY_RUN,
            group_counts=counted,
            offset_counts=offsets,
            refused=_first(refused),
            stopped_by=stopped_by,
            seconds=seconds,
        )


def _do_units(
    work: UnitWork, task: Callable[[UnitSession, str], dict[str, int]], units: Iterable[str]
) -> Iterator[tuple[str, dict[str, int], str]]:
    """Runs in a Spark task. Returns a failure of the server, because Spark would retry an error."""
    unit = ""
    try:
        with work.session() as session:
            for unit in units:
                yield unit, task(session, unit), ""
    except OffsetdError as error:
        told = f"{error.reason}: {error}" if error.reason else f"no answer: {error}"
        yield unit, {}, f"at {unit}: {told}"


def _with_members(spark: SparkSession, places: Sequence[str]) -> DataFrame:
    """Groups that had members when the folders were copied, as rows of the found offsets."""
    reader = spark.read.format("offsetd").option("mode", "groups")
    groups = reader.option("columns", "group, state, member_count").load(list(places))
    unknown = sf.col("state").isNull()
    kind = sf.when(unknown, sf.lit(MEMBERS_UNKNOWN)).otherwise(sf.lit(MEMBERS))
    told = groups.where(unknown | (sf.col("member_count") > 0))
    texts = ("topic", "metadata", "place")
    numbers = {"partition": "int", "leader_epoch": "int", "offset": "bigint"}
    return told.select(
        sf.col("group").alias("source_group"),
        *(sf.lit(None).cast("string").alias(name) for name in texts),
        *(sf.lit(None).cast(each).alias(name) for name, each in numbers.items()),
        sf.lit(None).cast("bigint").alias("commit_time_ms"),
        kind.alias("problem_kind"),
        sf.lit("").alias("problem"),
    )


def _added(told: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in told:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total


def _counts(rows: DataFrame, name: str, what: str) -> dict[str, int]:
    """The number of rows, or the sum of a column, by the values of another."""
    counted = sf.count("*") if what == "count" else sf.sum(what)
    found = rows.groupBy(name).agg(counted.alias("total")).orderBy(name).collect()
    return {row[name]: row.total for row in found}


def _first(rows: DataFrame | None) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.table({}) if rows is None else rows.limit(LISTED_MAX).toArrow()

"""Restores offsets of groups on a server from an archive."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from offsetd_clients import (
    GroupNotFound,
    InvalidImport,
    OffsetClient,
    OffsetdError,
    OffsetFormat,
    Retention,
    TopicPartition,
)
from offsetd_clients.migration.outcomes import CHUNK_GROUPS_MAX, in_chunks
from offsetd_clients.migration.target import Target, is_groups_own
from pyspark.sql import functions as F  # noqa: N812  As everybody calls it.

from offsetd_pipeline.archive.archive_table import (
    ALL,
    GroupSelection,
    damaged_bytes,
    earliest_ms,
    files_until,
    gaps_at,
    manifests_of,
    rows_of,
    state_of,
)
from offsetd_pipeline.archive.manifests import ArchiveError, ArchiveFolder
from offsetd_pipeline.archive.restored_groups import (
    Outcome,
    PastGroup,
    PastOffset,
    Restored,
    RestoredGroup,
    import_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from offsetd_clients.migration.target import Stored
    from pyspark.sql import DataFrame, SparkSession

    from offsetd_pipeline.archive.manifests import Gap

_CHUNK_OFFSETS_MAX: Final = 20_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY: Final = "offsetd-restore"
_MILLISECOND: Final = timedelta(milliseconds=1)


class TimeNotArchived(ArchiveError):
    """The archive may lack commits of the time to restore."""


class OtherSource(ArchiveError):
    """The archive is not from the server to which the offsets are restored."""


@attrs.frozen(kw_only=True)
class RestoreOptions:
    """The options of a restore.

    `delete_others`: delete present offsets that groups did not have at that time.
    `accept_gaps`: restore even if records of that time may be missing.
    `from_other_source`: accept the archive of another server, or of a Kafka cluster.
    `reason`: the reason for the audit log.
    """

    selection: GroupSelection = ALL
    delete_others: bool = False
    accept_gaps: bool = False
    from_other_source: bool = False
    validate_only: bool = True
    reason: str = ""


_DRY_RUN: Final = RestoreOptions()


def restore(
    spark: SparkSession,
    archive: str | Path,
    client: OffsetClient,
    at: datetime | None = None,
    options: RestoreOptions = _DRY_RUN,
    *,
    told: Callable[[str], object] = lambda _: None,
) -> Restored:
    """Restores the offsets at the end of millisecond `at`, or at the archive's end if it is None.

    Each group is restored as a whole or not at all. Offsets are imported with their commit times.
    `told` is called with each group's id. Raises TimeNotArchived, OtherSource (a dry run reports it
    instead), ArchiveError, OSError, and OffsetdError if it failed before the first group was tried.
    """
    folder = ArchiveFolder(Path(archive))
    manifests = manifests_of(folder)
    source, server_id = manifests[-1].source, _folder_id(client)
    other_source = None if source == server_id else source
    if other_source is not None and not (options.validate_only or options.from_other_source):
        raise OtherSource(
            f"{folder.path} is the archive of {source}, and the server's folder is {server_id}:"
            " nothing was restored"
        )
    at_ms = None if at is None else (at - _EPOCH) // _MILLISECOND
    selection = options.selection
    wanted = selection.log_partitions(manifests[-1].offsets_partitions)
    gaps = [] if at_ms is None else gaps_at(manifests, at_ms, wanted)
    begins_ms = earliest_ms(manifests)
    begins_later = at_ms is not None and begins_ms is not None and at_ms < begins_ms
    if not options.accept_gaps:
        if gaps:
            raise TimeNotArchived(_gaps_told(gaps))
        if begins_later:
            raise TimeNotArchived(f"the archive begins later, at {_told_time(begins_ms)}")
    day = None if at is None else at.astimezone(UTC).date().isoformat()
    files = files_until(manifests, day, wanted)
    rows = rows_of(spark, folder, files).where(selection.condition())
    restoring = _Restoring(client, options, told)
    restoring.run(_past_groups(state_of(rows, at_ms)))
    latest_ms = manifests[-1].latest_ms
    return Restored(
        at=at,
        archive_latest=None if latest_ms is None else _EPOCH + latest_ms * _MILLISECOND,
        groups=tuple(sorted(restoring.groups, key=lambda each: each.group_id)),
        gaps=tuple(gaps),
        begins_later=begins_later,
        damaged_bytes=damaged_bytes(manifests, wanted),
        other_source=other_source,
        is_dry_run=options.validate_only,
        stopped_by=restoring.stopped_by,
    )


def _folder_id(client: OffsetClient) -> str:
    """The id of the server's folder. A loading server does not return it yet."""
    if not (found := client.get_server_info().folder_id):
        with suppress(GroupNotFound):
            client.get_group(_NOBODY)  # This call waits for the load.
        found = client.get_server_info().folder_id
    return found


def _past_groups(state: DataFrame) -> Iterator[PastGroup]:
    """Yields each group as soon as Spark has computed it."""
    sorted_state = state.select(
        "group",
        "topic",
        "partition",
        "offset",
        "leader_epoch",
        "metadata",
        # Spark would pass times to Python without their zone.
        F.unix_millis("commit_time").alias("commit_time_ms"),
        F.unix_millis("expire_time").alias("expire_time_ms"),
    ).orderBy("group", "topic", "partition")
    rows = sorted_state.toLocalIterator(prefetchPartitions=True)
    for group_id, mine in groupby(rows, key=lambda row: row["group"]):
        yield PastGroup(group_id=group_id, offsets=tuple(map(_past_offset, mine)))


def _past_offset(row: Any) -> PastOffset:
    return PastOffset(
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        leader_epoch=row.leader_epoch,
        metadata=row.metadata or "",
        commit_time_ms=row.commit_time_ms,
        expire_time_ms=row.expire_time_ms,
    )


class _Restoring:
    """Writes groups, some at a time."""

    def __init__(
        self, client: OffsetClient, options: RestoreOptions, told: Callable[[str], object]
    ) -> None:
        self.groups: list[RestoredGroup] = []
        self.stopped_by: OffsetdError | None = None
        self._client = client
        self._target = Target(client, reason=options.reason)
        self._options = options
        self._told = told
        self._retentions: dict[str, Retention] = {}
        self._now_ms = time.time_ns() // 1_000_000

    def run(self, past: Iterator[PastGroup]) -> None:
        """Restores all groups, then handles those without offsets at that time."""
        self._retentions = self._groups_there()
        try:
            for chunk in in_chunks(past, offsets_max=_CHUNK_OFFSETS_MAX):
                self._restore(chunk)
            self._others()
        except OffsetdError as error:
            if not self.groups:
                raise
            self.stopped_by = error

    def _groups_there(self) -> dict[str, Retention]:
        """The chosen groups of the server, with their retentions."""
        selection = self._options.selection
        if selection.groups and not selection.group_prefix:
            found = [self._target.group(each) for each in selection.groups]
            return {each.group_id: each.retention for each in found if each is not None}
        prefix = "" if selection.groups else selection.group_prefix
        return {
            each.group_id: each.retention
            for each in self._client.list_groups(group_id_prefix=prefix)
            if selection.takes_group(each.group_id)
        }

    def _restore(self, chunk: Sequence[PastGroup]) -> None:
        stored = self._stored([each.group_id for each in chunk])
        writes: dict[str, list[PastOffset]] = {}
        for group in chunk:
            problem = group.problem()
            there = stored[group.group_id]
            if isinstance(there, OffsetdError):
                problem = str(there)
            elif not problem:
                writes[group.group_id] = [
                    each
                    for each in group.offsets
                    if not each.is_stored_as(there.get(each.topic_partition))
                ]
            if problem:
                self._done(group, Outcome.FAILED, problem=problem)
        refused = self._import(writes)
        for group in chunk:
            there = stored[group.group_id]
            if group.group_id in refused:
                self._done(group, Outcome.FAILED, problem=refused[group.group_id])
            elif group.group_id in writes and not isinstance(there, OffsetdError):
                self._finish(group, writes[group.group_id], there)

    def _finish(self, group: PastGroup, written: Sequence[PastOffset], stored: Stored) -> None:
        """Handles a group's other offsets after its restore."""
        then = {each.topic_partition for each in group.offsets}
        others = self._meant(stored, then)
        deleted_count, problem = self._delete(group.group_id, others)
        has_changed = written or deleted_count
        retention_ms = self._retention_ms(group.group_id)
        expiries = (each.expires_ms(retention_ms) for each in written)
        self._done(
            group,
            Outcome.FAILED if problem else Outcome.RESTORED if has_changed else Outcome.UNCHANGED,
            written_count=len(written),
            other_count=len(others),
            deleted_count=deleted_count,
            expiring_count=sum(each is not None and each <= self._now_ms for each in expiries),
            problem=f"restored, but for what it has else: {problem}" if problem else "",
        )

    def _others(self) -> None:
        """Handles groups that exist or were named, and had no offsets at that time."""
        done = {each.group_id for each in self.groups}
        left = [each for each in sorted(self._retentions) if each not in done]
        for first in range(0, len(left), CHUNK_GROUPS_MAX):
            stored = self._stored(left[first : first + CHUNK_GROUPS_MAX])
            for group_id, there in stored.items():
                self._other(group_id, there)
        for group_id in self._options.selection.groups:
            if group_id not in self._retentions and group_id not in done:
                group = PastGroup(group_id=group_id, offsets=())
                self._done(group, Outcome.FAILED, problem="neither archived then, nor there now")

    def _other(self, group_id: str, there: Stored | OffsetdError) -> None:
        group = PastGroup(group_id=group_id, offsets=())
        if isinstance(there, OffsetdError):
            self._done(group, Outcome.FAILED, problem=str(there))
            return
        others = self._meant(there, set())
        if not others:
            return
        deleted_count, problem = self._delete(group_id, others)
        outcome = Outcome.DELETED if deleted_count else Outcome.KEPT
        self._done(
            group,
            Outcome.FAILED if problem else outcome,
            other_count=len(others),
            deleted_count=deleted_count,
            problem=problem,
        )

    def _meant(self, stored: Stored, then: set[TopicPartition]) -> list[TopicPartition]:
        """The chosen stored offsets that did not exist at that time."""
        topics = self._options.selection.topics
        return [
            each for each in stored if each not in then and (not topics or each.topic in topics)
        ]

    def _stored(self, group_ids: Sequence[str]) -> dict[str, Stored | OffsetdError]:
        try:
            return dict(self._target.stored(group_ids))
        except OffsetdError as error:
            if not is_groups_own(error):
                raise
        found: dict[str, Stored | OffsetdError] = {}
        for group_id in group_ids:
            try:
                found |= self._target.stored([group_id])
            except OffsetdError as error:
                if not is_groups_own(error):
                    raise
                found[group_id] = error
        return found

    def _import(self, writes: Mapping[str, Sequence[PastOffset]]) -> dict[str, str]:
        """Writes each group as a whole; returns the refused groups with the reasons."""
        refused: dict[str, str] = {}
        while True:
            named = [
                (group_id, import_line(group_id, offset))
                for group_id, offsets in writes.items()
                if group_id not in refused
                for offset in offsets
            ]
            if not named:
                return refused
            try:
                imported = self._client.import_offsets(
                    "".join(line for _, line in named).encode(),
                    OffsetFormat.JSONL,
                    keep_commit_times=True,
                    validate_only=self._options.validate_only,
                    reason=self._options.reason,
                )
            except InvalidImport as error:
                # One bad line makes the server refuse the whole file; the other groups are tried
                # without it.
                bad = {
                    named[int(str(each["line"])) - 1][0]: str(each["problem"])
                    for each in error.lines
                }
                if not bad:
                    raise
                refused |= bad
            else:
                errors = {each.group_id: each.error for each in imported}
                return refused | {name: str(each) for name, each in errors.items() if each}

    def _delete(self, group_id: str, others: Sequence[TopicPartition]) -> tuple[int, str]:
        """Returns the number of deleted offsets, and the problem that prevented a deletion."""
        if not (self._options.delete_others and others):
            return 0, ""
        try:
            self._client.delete_offsets(
                group_id,
                others,
                validate_only=self._options.validate_only,
                reason=self._options.reason,
            )
        except OffsetdError as error:
            if not is_groups_own(error):
                raise
            return 0, str(error)
        return len(others), ""

    def _retention_ms(self, group_id: str) -> int | None:
        own = self._retentions.get(group_id)
        retention = own if own is not None else self._target.default_retention()
        return None if not isinstance(retention, timedelta) else retention // _MILLISECOND

    def _done(self, group: PastGroup, outcome: Outcome, **counts: Any) -> None:
        self.groups.append(
            RestoredGroup(
                group_id=group.group_id,
                outcome=outcome,
                offset_count=len(group.offsets),
                **counts,
            )
        )
        self._told(group.group_id)


def _gaps_told(gaps: Sequence[Gap]) -> str:
    first, *others = gaps
    text = (
        f"the archive may not have all of that time: of log partition {first.log_partition}"
        f" {first.missing_count} records are missing, which may be from"
        f" {_told_time(first.from_ms)} to {_told_time(first.to_ms)}"
    )
    return f"{text}, and so of {len(others)} others" if others else text


def _told_time(time_ms: int | None) -> str:
    if time_ms is None:
        return "any time before"
    told = _EPOCH + time_ms * _MILLISECOND
    return told.isoformat(timespec="milliseconds").replace("+00:00", "Z")

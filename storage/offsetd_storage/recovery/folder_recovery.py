"""Recovery of a data folder after any stop: clean, killed, powered off, or left by a broker.

The steps are those of `docs/formats/journal.md`. The survey comes first and changes nothing, so a
folder that is refused is not changed. After the survey, recovery itself may be killed at any point:
until the header of the journal's new life is durable, the next attempt reads the same contents from
the journal's old life.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from offsetd_storage.errors import StorageFull
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.folder.folder_format import (
    CLEAN_SHUTDOWN_NAME,
    FolderProperties,
    new_properties,
    write_properties,
)
from offsetd_storage.journal.journal import Journal, JournalSizes
from offsetd_storage.journal.journal_format import RecoveryPoint
from offsetd_storage.log.recovery_points import point_at_end, with_listings
from offsetd_storage.log.segment_list import remove_segment_list
from offsetd_storage.recovery.partition_recovery import apply_plan
from offsetd_storage.recovery.quarantine import (
    QUARANTINE_PREFIX,
    UNREADABLE_PREFIX,
    Claim,
    Damage,
    quarantine_path,
    write_quarantine_file,
)
from offsetd_storage.recovery.recovery_report import PartitionReport, RecoveryReport
from offsetd_storage.recovery.recovery_request import RecoveryRequest
from offsetd_storage.recovery.survey import (
    Survey,
    check_format,
    lock_folder,
    survey_as_it_is,
    survey_folder,
)
from offsetd_storage.recovery.survey_warnings import listing_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import ExitStack
    from pathlib import Path
    from random import Random

    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.folder_lock import FolderLock
    from offsetd_storage.journal.journal_recovery import RecoveredJournal
    from offsetd_storage.log.kafka_checkpoints import KafkaCheckpoints
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.store_config import LogStoreConfig
    from offsetd_storage.recovery.recovery_report import RecoveryProgress
    from offsetd_storage.recovery.recovery_request import RepairWitness
    from offsetd_storage.topic_partition import TopicPartition

__all__ = ["CLEAN_SHUTDOWN_NAME", "RecoveredFolder", "recover_folder"]


@attrs.frozen(kw_only=True)
class RecoveredFolder:
    """A recovered folder, ready for appends. Use the files of `lock`."""

    lock: FolderLock
    properties: FolderProperties
    journal: Journal
    logs: dict[TopicPartition, PartitionLog]
    quarantined: dict[TopicPartition, Damage]
    checkpoints: KafkaCheckpoints
    report: RecoveryReport


def _locked(files: Files, path: Path, cleanup: ExitStack) -> FolderLock:
    lock = lock_folder(files, path)
    cleanup.callback(lock.release)
    return lock


def recover_folder(
    files: Files,
    path: Path,
    config: LogStoreConfig,
    *,
    clock: Clock,
    random: Random,
    cleanup: ExitStack,
    on_progress: Callable[[RecoveryProgress], None] | None,
    recreated: Collection[TopicPartition] = (),
    repaired: Collection[TopicPartition] = (),
    witness: RepairWitness | None = None,
    restore_lock: FolderLock | None = None,
) -> RecoveredFolder:
    """Locks, checks and recovers a folder, and begins a new life of its journal.

    The options are those of `LogStore.open`. `cleanup` will release everything, in any case.
    """
    lock = restore_lock or _locked(files, path, cleanup)
    files = lock.files
    folder = RecoveryRequest(
        files=files,
        path=path,
        config=config,
        clock=clock,
        random=random,
        recreated=frozenset(recreated),
        repaired=frozenset(repaired),
        witness=witness,
    )
    survey = survey_folder(folder, on_progress)
    properties = survey.properties or new_properties(
        survey.offsets_partitions, random, is_from_elsewhere=survey.has_logs
    )
    journal = Journal(files, path, properties.identity, _sizes(config))
    cleanup.callback(journal.close)
    journal.refuse_if_too_small({*survey.claims, *survey.plans})
    if survey.journal is not None:
        journal.resume(survey.journal.end)
    if journal.drop_spare():  # First, because the next steps may need its disk space.
        files.sync_folder(path)
    follow_broker(folder, survey, journal)
    if survey.properties is None:
        write_properties(files, path, properties)
    quarantine_damaged(folder, survey)
    logs = apply_all(folder, survey, cleanup)
    cleaned = CleanerCheckpoint(files, path)
    forget_what_was_clean(cleaned, survey)
    survey.checkpoints.write({each: log.offset_next for each, log in logs.items()}, logs.values())
    begin_new_life(folder, journal, survey.journal, points_at_end(survey, logs))
    return RecoveredFolder(
        lock=lock,
        properties=forget_old_life(folder, properties, survey),
        journal=journal,
        logs=logs,
        quarantined=dict(survey.damaged),
        checkpoints=survey.checkpoints,
        report=_report(survey, logs, cleaned),
    )


def planned_repairs(
    files: Files,
    path: Path,
    config: LogStoreConfig,
    partitions: Collection[TopicPartition],
    *,
    clock: Clock,
    random: Random,
) -> Survey:
    """The survey of a repair of these partitions. Changes nothing except the lock's file.

    Raises FolderLocked, and the errors of `survey_folder`.
    """
    lock = lock_folder(files, path)
    try:
        folder = RecoveryRequest(
            files=lock.files,
            path=path,
            config=config,
            clock=clock,
            random=random,
            repaired=frozenset(partitions),
        )
        return survey_as_it_is(folder, check_format(folder), None)
    finally:
        lock.release()


def _sizes(config: LogStoreConfig) -> JournalSizes:
    logs = [config.log, *(spec.log for spec in config.other_topics)]
    return JournalSizes(
        file_bytes=config.journal_file_bytes,
        header_bytes=config.journal_header_bytes,
        frame_bytes_max=config.frame_bytes_max,
        batch_bytes_max=max(log.batch_bytes_max for log in logs),
    )


def _report(
    survey: Survey, logs: Mapping[TopicPartition, PartitionLog], cleaned: CleanerCheckpoint
) -> RecoveryReport:
    epochs_problems = [
        log.leader_epochs_problem for log in logs.values() if log.leader_epochs_problem is not None
    ]
    return RecoveryReport(
        closed_clean=None if survey.journal is None else survey.journal.closed_clean,
        partitions=tuple(
            PartitionReport(
                topic_partition=topic_partition,
                offset_next=logs[topic_partition].offset_next,
                bytes_scanned=plan.bytes_scanned,
                bytes_cut=plan.bytes_cut,
                batches_appended_again=len(plan.batches),
                index_problems=logs[topic_partition].index_problems,
            )
            for topic_partition, plan in survey.plans.items()
        ),
        journal_bytes_cut=0 if survey.journal is None else survey.journal.bytes_cut,
        warnings=(
            *(() if survey.journal is None else survey.journal.warnings),
            *survey.warnings,
            *survey.checkpoints.warnings,
            *cleaned.warnings,
            *epochs_problems,
        ),
        notes=listing_notes(survey.plans),
        repairs=survey.repairs,
    )


# Step 7 --------------------------------------------------------------------------------------


def follow_broker(folder: RecoveryRequest, survey: Survey, journal: Journal) -> None:
    """7. The first changes, if a broker has had the folder since.

    If the journal had crashed, and the logs count as the broker left them, the journal records that
    first, before the evidence is removed. The lists of segments are removed, too, because a broker
    does not keep them. The broker's clean-shutdown file is removed, because it becomes false.
    """
    if survey.is_brokers:
        for topic_partition in survey.plans:
            log_folder = folder.path / topic_partition.folder_name
            if folder.files.exists(log_folder):
                remove_segment_list(folder.files, log_folder)
    if survey.ends_journal_for_broker:
        journal.append_closed_late()
    path = folder.path / CLEAN_SHUTDOWN_NAME
    if folder.files.exists(path):
        folder.files.unlink(path)
        folder.files.sync_folder(folder.path)


# Step 8 --------------------------------------------------------------------------------------


def quarantine_damaged(folder: RecoveryRequest, survey: Survey) -> None:
    """8. Copies a damaged partition's part of the journal to its quarantine file, durably.

    Nothing else is done to the partition.
    """
    for topic_partition in survey.damaged:
        claim = survey.claims.get(topic_partition)
        if isinstance(claim, Claim) and not claim.is_aside:
            write_quarantine_file(folder.files, folder.path, claim)


# Step 9 --------------------------------------------------------------------------------------


def apply_all(
    folder: RecoveryRequest, survey: Survey, cleanup: ExitStack
) -> dict[TopicPartition, PartitionLog]:
    """9. Cuts logs, appends the journal's batches again, and makes missing folders, durably."""
    logs = {}
    witness = folder.witness
    for topic_partition, plan in survey.plans.items():
        if plan.repair is not None and witness is not None:
            witness.begins(folder.files, plan.repair)
        log_start_offset = (
            survey.checkpoints.log_start(topic_partition, plan.offset_next)
            if plan.point is None
            else plan.point.log_start_offset
        )
        log = apply_plan(
            folder.files,
            folder.path,
            plan,
            folder.config.log_config(topic_partition.topic),
            log_start_offset=log_start_offset,
            now_ms=folder.clock.now_ms(),
            random=folder.random,
        )
        cleanup.callback(log.abandon)
        logs[topic_partition] = log
        if plan.repair is not None and witness is not None:
            witness.is_done(plan.repair)
    return logs


def forget_what_was_clean(cleaned: CleanerCheckpoint, survey: Survey) -> None:
    """Removes the cleaner's position of each new log; an earlier log of that name left it."""
    for topic_partition, plan in survey.plans.items():
        if not plan.scans:
            with suppress(StorageFull):  # Then the position is not above the log's start.
                cleaned.advance(topic_partition, None)
    # A broker's cleaner may have changed the segments. The segment lists now match them, so the
    # checkpoint counts as ours from here on.
    with suppress(StorageFull):
        cleaned.put_checksum()


# Steps 10 and 11 -----------------------------------------------------------------------------


def points_at_end(
    survey: Survey, logs: Mapping[TopicPartition, PartitionLog]
) -> dict[TopicPartition, RecoveryPoint]:
    """The first recovery points of the new life: every log is durable up to its end."""
    points = {topic_partition: point_at_end(log) for topic_partition, log in logs.items()}
    points = with_listings(logs, points)
    # A damaged partition without a claim has nothing in the journal to keep.
    held = [each for each in survey.damaged if each in survey.claims]
    return points | {each: RecoveryPoint.of_held(each) for each in held}


def begin_new_life(
    folder: RecoveryRequest,
    journal: Journal,
    old: RecoveredJournal | None,
    points: Mapping[TopicPartition, RecoveryPoint],
) -> None:
    """10. Ends the old life. 11. Begins the new life in the file that is not needed.

    If the old life uses both files, its last frame has recovery points at the logs' ends. That
    frame is durable before the older file is overwritten, because a crash may tear the new header.
    """
    life = 0
    if old is not None:
        life = old.end.life
        if not journal.other_file_is_free:
            journal.append_last_recovery_points(
                {
                    topic_partition: point if point.held else _as_large(points, point)
                    for topic_partition, point in old.end.points.items()
                }
            )
    while life in (0, old and old.end.life):
        life = folder.random.getrandbits(64)
    journal.begin_life(life, [points[each] for each in sorted(points)])


def _as_large(
    points: Mapping[TopicPartition, RecoveryPoint], before: RecoveryPoint
) -> RecoveryPoint:
    """The new point of a partition, in a form that is not larger in the journal than before."""
    point = points[before.topic_partition]
    # An older version wrote the point, and reserved no bytes for these fields.
    if before.headers_digest is None:
        return attrs.evolve(point, headers_digest=None, listed_below=0)
    return point


# Step 12 -------------------------------------------------------------------------------------


def forget_old_life(
    folder: RecoveryRequest, properties: FolderProperties, survey: Survey
) -> FolderProperties:
    """12. Records that there is a journal now. Removes quarantine files of repaired partitions."""
    files = folder.files
    if not properties.journal_begun:
        properties = attrs.evolve(properties, journal_begun=True)
        write_properties(files, folder.path, properties)
    kept = {quarantine_path(folder.path, each).name for each in survey.damaged}
    unreadable = {
        quarantine_path(folder.path, each.topic_partition).name
        for each in survey.repairs
        if isinstance(survey.claims.get(each.topic_partition), Damage)
    }
    for name in files.list_folder(folder.path):
        if name.startswith(QUARANTINE_PREFIX) and name not in kept:
            if name in unreadable:  # A quarantine file that a repair could not read is kept.
                files.rename(folder.path / name, folder.path / f"{UNREADABLE_PREFIX}{name}")
            else:
                files.unlink(folder.path / name)
            files.sync_folder(folder.path)
    return properties

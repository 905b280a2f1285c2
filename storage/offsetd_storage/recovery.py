"""Opens a data folder after any stop: clean, killed, powered off, or left by a broker.

The steps are those of `docs/formats/journal.md`. Up to step 4 nothing is changed, so that a folder
that is refused stays as it is. From there on recovery may itself be killed anywhere: until the
header of step 10 is durable, the journal of the old life tells the next attempt the same.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.errors import FolderMismatch, ForeignWriter
from offsetd_storage.folder_checkpoints import FolderCheckpoints
from offsetd_storage.folder_format import (
    FolderProperties,
    new_properties,
    read_properties,
    write_properties,
)
from offsetd_storage.folder_lock import FolderLock
from offsetd_storage.journal import JOURNAL_NAMES, Journal, JournalSizes
from offsetd_storage.journal_format import RecoveryPoint
from offsetd_storage.journal_recovery import RecoveredJournal, recover_journal
from offsetd_storage.kernels import padded_buffer
from offsetd_storage.partition_recovery import PartitionPlan, PartitionPlanner, apply_plan
from offsetd_storage.quarantine import (
    QUARANTINE_PREFIX,
    Claim,
    Damage,
    claims_of,
    list_quarantine_files,
    quarantine_path,
    write_quarantine_file,
)
from offsetd_storage.recovery_report import PartitionReport, RecoveryProgress, RecoveryReport
from offsetd_storage.segment_scan import BUFFER_BYTES
from offsetd_storage.settle import settle_folder, sync_segments
from offsetd_storage.store_config import (
    OFFSETS_PARTITIONS_DEFAULT,
    OFFSETS_TOPIC,
    LogStoreConfig,
)
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack
    from pathlib import Path
    from random import Random

    from offsetd_storage.clock import Clock
    from offsetd_storage.files import Files
    from offsetd_storage.partition_log import PartitionLog

CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"


@attrs.frozen(kw_only=True)
class RecoveredFolder:
    """A folder in a new life, ready for appends."""

    properties: FolderProperties
    journal: Journal
    logs: dict[TopicPartition, PartitionLog]
    quarantined: dict[TopicPartition, Damage]
    checkpoints: FolderCheckpoints
    report: RecoveryReport


@attrs.frozen(kw_only=True)
class _Folder:
    """What every step needs."""

    files: Files
    path: Path
    config: LogStoreConfig
    clock: Clock
    random: Random


def recover_folder(
    files: Files,
    path: Path,
    config: LogStoreConfig,
    *,
    clock: Clock,
    random: Random,
    cleanup: ExitStack,
    on_progress: Callable[[RecoveryProgress], None] | None,
) -> RecoveredFolder:
    """Locks, checks and repairs a folder, and begins a new life of its journal.

    What has to be given back, also after an error, goes into `cleanup`.
    """
    folder = _Folder(files=files, path=path, config=config, clock=clock, random=random)
    found = lock_and_check_format(folder, cleanup)
    old = follow_journal(folder, found)
    claims = collect_claims(folder, old)
    checkpoints = FolderCheckpoints(files, path)
    offsets_partitions, partitions = find_partitions(folder, found, checkpoints, claims)
    was_clean = refuse_or_clear_clean_shutdown(folder, old)
    properties = found or write_new_properties(folder, offsets_partitions)
    damaged = settle_folders(folder, old, partitions, claims, was_clean=was_clean)
    plans = plan_all(folder, partitions, claims, damaged, on_progress)
    refuse_foreign_batches(plans)
    quarantine_damaged(folder, old, claims, damaged)
    logs = apply_all(folder, plans, checkpoints, cleanup)
    checkpoints.write({each: log.offset_next for each, log in logs.items()}, logs.values())
    journal = Journal(files, path, properties.identity, _sizes(config))
    cleanup.callback(journal.close)
    begin_new_life(folder, journal, old, points_at_end(logs, claims, damaged))
    properties = forget_old_life(folder, properties, damaged)
    return RecoveredFolder(
        properties=properties,
        journal=journal,
        logs=logs,
        quarantined=damaged,
        checkpoints=checkpoints,
        report=_report(old, plans, logs, checkpoints),
    )


def _sizes(config: LogStoreConfig) -> JournalSizes:
    return JournalSizes(
        file_bytes=config.journal_file_bytes,
        header_bytes=config.journal_header_bytes,
        frame_bytes_max=config.frame_bytes_max,
    )


def _report(
    old: RecoveredJournal | None,
    plans: Mapping[TopicPartition, PartitionPlan],
    logs: Mapping[TopicPartition, PartitionLog],
    checkpoints: FolderCheckpoints,
) -> RecoveryReport:
    return RecoveryReport(
        closed_clean=None if old is None else old.closed_clean,
        partitions=tuple(
            PartitionReport(
                topic_partition=topic_partition,
                offset_next=logs[topic_partition].offset_next,
                bytes_scanned=plan.bytes_scanned,
                bytes_cut=plan.bytes_cut,
                batches_appended_again=len(plan.batches),
                index_problems=logs[topic_partition].index_problems,
            )
            for topic_partition, plan in plans.items()
        ),
        warnings=tuple(checkpoints.warnings),
    )


# Step 1 --------------------------------------------------------------------------------------


def lock_and_check_format(folder: _Folder, cleanup: ExitStack) -> FolderProperties | None:
    """1. One process at a time; a newer format is not even locked. None: not ours yet."""
    files, path = folder.files, folder.path
    if not files.exists(path):
        files.make_folder(path)
        files.sync_folder(path.parent)
    read_properties(files, path)
    cleanup.callback(FolderLock.acquire(files, path).release)
    properties = read_properties(files, path)
    if properties is None:
        for name in JOURNAL_NAMES:
            if files.exists(path / name):
                raise FolderMismatch(f"{path / name} is there, but offsetd.properties is not")
    return properties


# Step 2 --------------------------------------------------------------------------------------


def follow_journal(folder: _Folder, properties: FolderProperties | None) -> RecoveredJournal | None:
    """2. What the journal says; None if no life of it ever began."""
    if properties is None:
        return None
    return recover_journal(
        folder.files, folder.path, properties.identity, begun=properties.journal_begun
    )


# Step 3 --------------------------------------------------------------------------------------


def collect_claims(
    folder: _Folder, old: RecoveredJournal | None
) -> dict[TopicPartition, Claim | Damage]:
    """3. What was promised about each partition: by the journal, else by its quarantine file.

    A partition without either is judged by its own bytes alone.
    """
    kept_aside = set(list_quarantine_files(folder.files, folder.path))
    claims: dict[TopicPartition, Claim | Damage] = {}
    if old is not None:
        for topic_partition, point in old.end.points.items():
            if point.held:
                kept_aside.add(topic_partition)  # Its file has to be there.
                continue
            kept_aside.discard(topic_partition)  # An older file, of before it healed.
            claims[topic_partition] = Claim(
                point=point,
                batches=tuple(old.batches.get(topic_partition, ())),
                closed_clean=old.closed_clean,
            )
    return claims | claims_of(folder.files, folder.path, sorted(kept_aside))


# Step 4 --------------------------------------------------------------------------------------


def find_partitions(
    folder: _Folder,
    properties: FolderProperties | None,
    checkpoints: FolderCheckpoints,
    claims: Iterable[TopicPartition],
) -> tuple[int, list[TopicPartition]]:
    """4. How many partitions `__consumer_offsets` has, and all partitions that are to be served.

    The number is the folder's for ever: a group lies where its hash put it.
    """
    folders = [
        found
        for name in folder.files.list_folder(folder.path)
        if (found := TopicPartition.of_folder(name)) is not None
        and folder.files.is_folder(folder.path / name)
    ]
    highest = max(
        (
            each.partition
            for each in (*folders, *claims, *checkpoints.recovery_points)
            if each.topic == OFFSETS_TOPIC
        ),
        default=-1,
    )
    asked = folder.config.partitions
    if properties is not None:
        count = properties.offsets_partitions
    else:
        count = asked or highest + 1 or OFFSETS_PARTITIONS_DEFAULT
    if asked not in (None, count) or highest >= count:
        raise FolderMismatch(
            f"{folder.path} has {max(count, highest + 1)} partitions of {OFFSETS_TOPIC},"
            f" not {asked or count}"
        )
    served = {TopicPartition(OFFSETS_TOPIC, partition) for partition in range(count)}
    for spec in folder.config.other_topics:
        served |= {TopicPartition(spec.topic, partition) for partition in range(spec.partitions)}
        served |= {each for each in folders if each.topic == spec.topic}
    return count, sorted(served | set(claims))


def refuse_or_clear_clean_shutdown(folder: _Folder, old: RecoveredJournal | None) -> bool:
    """4. Whether the folder was left clean: by our own journal, or by a broker's word for it.

    The broker's word beside a journal that crashed means that it ran in between. Otherwise it is
    taken away durably before the first change, as it stops being true then.
    """
    path = folder.path / CLEAN_SHUTDOWN_NAME
    if not folder.files.exists(path):
        return old is not None and old.closed_clean
    if old is not None and not old.closed_clean:
        raise ForeignWriter(
            f"a broker ran on {folder.path} while the journal still held commits for it"
        )
    folder.files.unlink(path)
    folder.files.sync_folder(folder.path)
    return True


# Step 5 --------------------------------------------------------------------------------------


def write_new_properties(folder: _Folder, offsets_partitions: int) -> FolderProperties:
    """5. The folder becomes ours."""
    properties = new_properties(offsets_partitions, folder.random)
    write_properties(folder.files, folder.path, properties)
    return properties


def settle_folders(
    folder: _Folder,
    old: RecoveredJournal | None,
    partitions: Iterable[TopicPartition],
    claims: Mapping[TopicPartition, Claim | Damage],
    *,
    was_clean: bool,
) -> dict[TopicPartition, Damage]:
    """5. Finishes or undoes what a crash interrupted; then what is going to be read is on disk.

    The cache stays where nothing crashed: there a start need not read the disk. Returns the
    partitions that are known to be damaged; those are not touched.
    """
    damaged = {each: claim for each, claim in claims.items() if isinstance(claim, Damage)}
    for topic_partition in partitions:
        path = folder.path / topic_partition.folder_name
        if topic_partition in damaged or not folder.files.exists(path):
            continue
        damage = settle_folder(folder.files, path, topic_partition)
        if damage is not None:
            damaged[topic_partition] = damage
        elif old is None or not old.closed_clean:
            sync_segments(folder.files, path, drop_cache=not was_clean)
    return damaged


# Step 6 --------------------------------------------------------------------------------------


def plan_all(
    folder: _Folder,
    partitions: Iterable[TopicPartition],
    claims: Mapping[TopicPartition, Claim | Damage],
    damaged: dict[TopicPartition, Damage],
    on_progress: Callable[[RecoveryProgress], None] | None,
) -> dict[TopicPartition, PartitionPlan]:
    """6. Checks every batch of every log, and plans its recovery; adds to `damaged`."""
    waiting = [each for each in partitions if each not in damaged]
    planners: SimpleQueue[PartitionPlanner] = SimpleQueue()
    for _ in range(folder.config.recovery_threads):
        planners.put(PartitionPlanner(folder.files, folder.path, padded_buffer(BUFFER_BYTES)))

    def plan(topic_partition: TopicPartition) -> PartitionPlan | Damage:
        claim = claims.get(topic_partition)
        assert not isinstance(claim, Damage), "a damaged claim is not planned with"
        planner = planners.get()
        try:
            return planner.plan(
                topic_partition, claim, folder.config.log_config(topic_partition.topic)
            )
        finally:
            planners.put(planner)

    plans: dict[TopicPartition, PartitionPlan] = {}
    bytes_done = 0
    with ThreadPoolExecutor(folder.config.recovery_threads, "recovery") as pool:
        for done, outcome in enumerate(pool.map(plan, waiting), start=1):
            if isinstance(outcome, Damage):
                damaged[outcome.topic_partition] = outcome
            else:
                plans[outcome.topic_partition] = outcome
                bytes_done += outcome.bytes_scanned
            if on_progress is not None:
                on_progress(
                    RecoveryProgress(
                        partitions_done=done, partitions=len(waiting), bytes_done=bytes_done
                    )
                )
    return plans


def refuse_foreign_batches(plans: Mapping[TopicPartition, PartitionPlan]) -> None:
    """6. A leader epoch that we never used, above a recovery point: a broker wrote there."""
    for topic_partition, plan in plans.items():
        if plan.leader_epoch_cut > plan.leader_epoch_known:
            raise ForeignWriter(
                f"a broker (leader epoch {plan.leader_epoch_cut}) wrote to {topic_partition}"
                " while the journal still held commits for it"
            )


# Step 7 --------------------------------------------------------------------------------------


def quarantine_damaged(
    folder: _Folder,
    old: RecoveredJournal | None,
    claims: Mapping[TopicPartition, Claim | Damage],
    damaged: Iterable[TopicPartition],
) -> None:
    """7. A damaged partition's share of the journal goes to a file of its own, durably.

    Nothing else is done to the partition.
    """
    for topic_partition in damaged:
        claim = claims.get(topic_partition)
        is_aside = old is None or (
            topic_partition not in old.end.points or old.end.points[topic_partition].held
        )
        if isinstance(claim, Claim) and not is_aside:
            write_quarantine_file(folder.files, folder.path, claim)


# Step 8 --------------------------------------------------------------------------------------


def apply_all(
    folder: _Folder,
    plans: Mapping[TopicPartition, PartitionPlan],
    checkpoints: FolderCheckpoints,
    cleanup: ExitStack,
) -> dict[TopicPartition, PartitionLog]:
    """8. Cuts, appends the journal's batches again, makes missing folders; all of it durable."""
    logs = {}
    for topic_partition, plan in plans.items():
        log = apply_plan(
            folder.files,
            folder.path,
            plan,
            folder.config.log_config(topic_partition.topic),
            log_start_offset=checkpoints.log_starts.get(topic_partition, 0),
            now_ms=folder.clock.now_ms(),
            random=folder.random,
        )
        cleanup.callback(log.abandon)
        logs[topic_partition] = log
    return logs


# Steps 9 and 10 ------------------------------------------------------------------------------


def points_at_end(
    logs: Mapping[TopicPartition, PartitionLog],
    claims: Mapping[TopicPartition, Claim | Damage],
    damaged: Iterable[TopicPartition],
) -> dict[TopicPartition, RecoveryPoint]:
    """Where the new life starts: every log durable up to its end."""
    points = {
        topic_partition: RecoveryPoint(
            topic_partition=topic_partition,
            offset=log.offset_next,
            journal_offset_next=log.offset_next,
            segment_base_offset=log.segments[-1].base_offset,
            segment_bytes=log.segments[-1].size_bytes,
            leader_epoch=log.leader_epoch,
        )
        for topic_partition, log in logs.items()
    }
    # Of a damaged partition that no journal knew there is nothing to be kept.
    held = [topic_partition for topic_partition in damaged if topic_partition in claims]
    return points | {each: RecoveryPoint.of_held(each) for each in held}


def begin_new_life(
    folder: _Folder,
    journal: Journal,
    old: RecoveredJournal | None,
    points: Mapping[TopicPartition, RecoveryPoint],
) -> None:
    """9. Ends the old life; 10. begins the new one in the file that is not needed.

    If the old life spans both files, its last word are recovery points at the end, durable before
    the file before last is overwritten: the new header may tear.
    """
    life = 0
    if old is not None:
        journal.resume(old.end)
        life = old.end.life
        if not journal.other_file_is_free:
            journal.append_last_recovery_points(
                {
                    topic_partition: point if point.held else points[topic_partition]
                    for topic_partition, point in old.end.points.items()
                }
            )
    while life in (0, old and old.end.life):
        life = folder.random.getrandbits(64)
    journal.begin_life(life, [points[each] for each in sorted(points)])


# Step 11 -------------------------------------------------------------------------------------


def forget_old_life(
    folder: _Folder, properties: FolderProperties, damaged: Iterable[TopicPartition]
) -> FolderProperties:
    """11. From now on there has to be a journal; quarantine files of healed partitions go."""
    files = folder.files
    if not properties.journal_begun:
        properties = attrs.evolve(properties, journal_begun=True)
        write_properties(files, folder.path, properties)
    kept = {quarantine_path(folder.path, topic_partition).name for topic_partition in damaged}
    for name in files.list_folder(folder.path):
        if name.startswith(QUARANTINE_PREFIX) and name not in kept:
            files.unlink(folder.path / name)
            files.sync_folder(folder.path)
    return properties

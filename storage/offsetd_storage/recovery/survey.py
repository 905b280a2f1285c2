"""The survey of a data folder after any stop: its contents, and the recovery that it needs.

The steps are those of `docs/formats/journal.md`, up to the first change. Every reason to refuse a
folder is raised here. The files found are made durable first: a process that died leaves names and
pages in the cache that were never synced, and nothing may rely on these.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.errors import FolderMismatch, ForeignWriter, JournalDamaged, is_unreadable
from offsetd_storage.folder.checkpoint_files import refuse_newer_checkpoint
from offsetd_storage.folder.cleaner_checkpoint import CLEANER_CHECKPOINT, was_written_here
from offsetd_storage.folder.folder_format import (
    CLEAN_SHUTDOWN_NAME,
    JOURNAL_REMEDY,
    PROPERTIES_NAME,
    PROPERTIES_REMEDY,
    FolderProperties,
    read_properties,
)
from offsetd_storage.folder.folder_lock import FolderLock
from offsetd_storage.folder.stray_folders import strays_taken_back
from offsetd_storage.journal.journal import JOURNAL_NAMES
from offsetd_storage.journal.journal_recovery import RecoveredJournal, recover_journal
from offsetd_storage.kernels import padded_buffer
from offsetd_storage.log.kafka_checkpoints import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    KafkaCheckpoints,
)
from offsetd_storage.log.segment_scan import BUFFER_BYTES
from offsetd_storage.log.store_config import (
    OFFSETS_PARTITIONS_DEFAULT,
    OFFSETS_TOPIC,
    PARTITIONS_MAX,
)
from offsetd_storage.recovery.clean_shutdown_marker import CleanShutdownMarker, read_marker
from offsetd_storage.recovery.log_recreation import find_begun_anew, plan_anew
from offsetd_storage.recovery.log_scanner import is_as_closed
from offsetd_storage.recovery.partition_repair import RepairingPlanner
from offsetd_storage.recovery.quarantine import (
    REPAIR_REMEDY,
    Claim,
    Damage,
    DamageFound,
    claims_of,
    list_quarantine_files,
)
from offsetd_storage.recovery.recovery_report import RecoveryProgress
from offsetd_storage.recovery.survey_warnings import listing_warnings, start_warnings
from offsetd_storage.recovery.swap_recovery import sync_segments
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.recovery.partition_plan import PartitionPlan
    from offsetd_storage.recovery.recovery_request import RecoveryRequest
    from offsetd_storage.recovery.repair_plan import Repair

_OUR_PREFIX: Final = "offsetd"


@attrs.frozen(kw_only=True)
class Survey:
    """A folder that is going to be recovered, and the plans for it."""

    properties: FolderProperties | None  # None if it is not a folder of offsetd yet.
    offsets_partitions: int
    checkpoints: KafkaCheckpoints
    journal: RecoveredJournal | None  # None if it never had a life.
    claims: Mapping[TopicPartition, Claim | Damage]
    plans: Mapping[TopicPartition, PartitionPlan]
    damaged: Mapping[TopicPartition, Damage]
    warnings: tuple[str, ...]
    is_brokers: bool  # A broker has had the folder since, or at the same time.
    # True if a broker wrote to the folder after a crash of offsetd, when the logs already had all
    # batches of the journal.
    ends_journal_for_broker: bool

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The repairs of damaged partitions that were asked for."""
        return tuple(plan.repair for plan in self.plans.values() if plan.repair is not None)

    @property
    def has_logs(self) -> bool:
        """Returns whether the folder has any segment, even a damaged one."""
        return bool(self.damaged) or any(plan.scans for plan in self.plans.values())


def survey_folder(
    folder: RecoveryRequest,
    on_progress: Callable[[RecoveryProgress], None] | None,
) -> Survey:
    """Plans the recovery of a locked folder.

    The only change is that log folders of ours that a broker had renamed get their names back.
    Raises NewerFormat, FolderMismatch, JournalDamaged, ForeignWriter, OSError; then this change is
    undone, too.
    """
    properties = check_format(folder)
    ours = [
        TopicPartition(spec.topic, partition)
        for spec in folder.config.other_topics
        for partition in range(spec.partitions)
    ]
    with strays_taken_back(folder.files, folder.path, ours) as warnings:
        survey = survey_as_it_is(folder, properties, on_progress)
        return attrs.evolve(survey, warnings=warnings + survey.warnings)


def survey_as_it_is(
    folder: RecoveryRequest,
    properties: FolderProperties | None,
    on_progress: Callable[[RecoveryProgress], None] | None,
) -> Survey:
    """The steps after the first. They change nothing."""
    mark = read_marker(folder.files, folder.path)
    journal = follow_journal(folder, properties, mark)
    claims = collect_claims(folder, journal)
    checkpoints = KafkaCheckpoints(folder.files, folder.path)
    anew = find_begun_anew(folder, claims, checkpoints)
    claims = anew.keep(claims)
    offsets_partitions, partitions = find_partitions(
        folder, properties, checkpoints, {*claims, *anew.offsets}
    )
    partitions = [each for each in partitions if each not in anew.offsets]
    broker = broker_that_closed(folder)
    if broker is not None:
        claims = claims_after_broker(claims, broker)
    sync_logs(folder, partitions, claims, mark, keep_cache=broker is not None)
    is_brokers = broker is not None or broker_has_cleaned(folder)
    plans, damaged = plan_all(folder, partitions, claims, on_progress, is_brokers=is_brokers)
    if broker is None:
        broker = broker_that_was_killed(plans, checkpoints)
        if broker is not None:
            is_brokers = True
            claims = claims_after_broker(claims, broker)
            plans, damaged = plan_all(folder, partitions, claims, on_progress, is_brokers=True)
    warnings = anew.warnings + listing_warnings(plans)
    if broker is None:
        warnings += start_warnings(plans, claims)
    else:
        # The claim's point does not cover batches that a broker has written since.
        plans = {each: attrs.evolve(plan, point=None) for each, plan in plans.items()}
    return Survey(
        properties=properties,
        offsets_partitions=offsets_partitions,
        checkpoints=checkpoints,
        journal=journal,
        claims=claims,
        plans=plans
        | {
            each: plan_anew(folder.files, folder.path, each, offset)
            for each, offset in anew.offsets.items()
        },
        damaged=damaged,
        warnings=warnings,
        is_brokers=is_brokers,
        ends_journal_for_broker=(
            broker is not None and journal is not None and not journal.closed_clean
        ),
    )


# Step 1 --------------------------------------------------------------------------------------


def lock_folder(files: Files, path: Path) -> FolderLock:
    """1. Locks the folder, and makes it if it is missing: one process at a time.

    A folder of a newer format is not even locked. Raises FolderLocked, FolderMismatch, NewerFormat,
    OSError.
    """
    if not files.exists(path):
        files.make_folder(path)
    elif not files.is_folder(path):
        raise FolderMismatch(f"{path} is not a folder")
    read_properties(files, path)
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT):
        refuse_newer_checkpoint(files, path / name)
    return FolderLock.acquire(files, path)


def check_format(folder: RecoveryRequest) -> FolderProperties | None:
    """1. The properties of the locked folder; None if it is not a folder of offsetd yet."""
    files, path = folder.files, folder.path
    sync_names(files, path)
    properties = read_properties(files, path)
    if properties is None:
        for name in JOURNAL_NAMES:
            if files.exists(path / name):
                raise FolderMismatch(
                    f"{path / name} is there, but {PROPERTIES_NAME} is not; {PROPERTIES_REMEDY}"
                )
    return properties


def sync_names(files: Files, path: Path) -> None:
    """Syncs the folder's parent, the folder, and the contents of our files in it."""
    with suppress(PermissionError):  # If the parent is not readable, we have made no name in it.
        files.sync_folder(path.parent)
    files.sync_folder(path)
    for name in files.list_folder(path):
        if name.startswith(_OUR_PREFIX) and not files.is_folder(path / name):
            file = files.open(path / name)
            try:
                file.sync()
            finally:
                file.close()


# Step 2 --------------------------------------------------------------------------------------


def follow_journal(
    folder: RecoveryRequest, properties: FolderProperties | None, mark: CleanShutdownMarker
) -> RecoveredJournal | None:
    """2. The contents of the journal; None if it never had a life.

    If the journal is unchanged since it was closed, its last frame is enough, and no search is
    needed.
    """
    if properties is None:
        return None
    follow = partial(
        recover_journal,
        folder.files,
        folder.path,
        properties.identity,
        begun=properties.journal_begun,
    )
    try:
        closed = follow(as_closed=True) if mark.has_journal(folder.files, folder.path) else None
        return closed or follow()
    except JournalDamaged as error:
        remedy = f"put the whole folder back from a backup, or {JOURNAL_REMEDY}"
        raise JournalDamaged(f"{error}; {remedy}") from error


# Step 3 --------------------------------------------------------------------------------------


def collect_claims(
    folder: RecoveryRequest, journal: RecoveredJournal | None
) -> dict[TopicPartition, Claim | Damage]:
    """3. The claim of each partition: from the journal, else from its quarantine file.

    A partition without a claim is judged by its own bytes alone.
    """
    kept_aside = set(list_quarantine_files(folder.files, folder.path))
    claims: dict[TopicPartition, Claim | Damage] = {}
    if journal is not None:
        for topic_partition, point in journal.end.points.items():
            if point.held:
                kept_aside.add(topic_partition)  # It must have a quarantine file.
                continue
            kept_aside.discard(topic_partition)  # Its quarantine file, if any, is outdated.
            claims[topic_partition] = Claim(
                point=point,
                batches=tuple(journal.batches.get(topic_partition, ())),
                closed_clean=journal.closed_clean,
            )
    return claims | claims_of(folder.files, folder.path, sorted(kept_aside))


# Step 4 --------------------------------------------------------------------------------------


def find_partitions(
    folder: RecoveryRequest,
    properties: FolderProperties | None,
    checkpoints: KafkaCheckpoints,
    claims: Iterable[TopicPartition],
) -> tuple[int, list[TopicPartition]]:
    """4. The number of partitions of `__consumer_offsets`, and all partitions that are served.

    The number of a folder never changes, because a group's partition follows from its hash. A
    checkpoint counts only in a folder that is not ours yet.
    """
    folders = [
        found
        for name in folder.files.list_folder(folder.path)
        if (found := TopicPartition.of_folder(name)) is not None
        and folder.files.is_folder(folder.path / name)
    ]
    named = checkpoints.recovery_points if properties is None else ()
    highest = max(
        (each.partition for each in (*folders, *claims, *named) if each.topic == OFFSETS_TOPIC),
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
    if count > PARTITIONS_MAX:
        raise FolderMismatch(
            f"{folder.path} has {count} partitions of {OFFSETS_TOPIC}, more than {PARTITIONS_MAX}"
        )
    served = {TopicPartition(OFFSETS_TOPIC, partition) for partition in range(count)}
    for spec in folder.config.other_topics:
        served |= {TopicPartition(spec.topic, partition) for partition in range(spec.partitions)}
        served |= {each for each in folders if each.topic == spec.topic}
    return count, sorted(served | set(claims))


# Step 5 --------------------------------------------------------------------------------------


def sync_logs(
    folder: RecoveryRequest,
    partitions: Iterable[TopicPartition],
    claims: Mapping[TopicPartition, Claim | Damage],
    mark: CleanShutdownMarker,
    *,
    keep_cache: bool,
) -> None:
    """5. Syncs the logs that will be read, because bytes that are read count as durable.

    A log that matches the mark of a clean close is durable already. After a sync the page cache is
    dropped, because it may show bytes that a failed sync has lost. It is not dropped if the last
    writer closed the log in order: then every sync had succeeded, and the start need not read from
    the disk.
    """
    for topic_partition in partitions:
        path = folder.path / topic_partition.folder_name
        claim = claims.get(topic_partition)
        if isinstance(claim, Damage) or not folder.files.exists(path):
            continue
        is_ours = (
            claim is not None
            and claim.closed_clean
            and is_as_closed(folder.files, path, claim.point)
        )
        if is_ours and mark.has_log(folder.files, path):
            continue
        sync_segments(folder.files, path, drop_cache=not (keep_cache or is_ours))


# Step 6 --------------------------------------------------------------------------------------


def plan_all(
    folder: RecoveryRequest,
    partitions: Iterable[TopicPartition],
    claims: Mapping[TopicPartition, Claim | Damage],
    on_progress: Callable[[RecoveryProgress], None] | None,
    *,
    is_brokers: bool,
) -> tuple[dict[TopicPartition, PartitionPlan], dict[TopicPartition, Damage]]:
    """6. Checks every batch of every log, and plans its recovery."""
    damaged = {
        each: _with_remedy(claim)
        for each, claim in claims.items()
        if isinstance(claim, Damage) and each not in folder.repaired
    }
    waiting = [each for each in partitions if each not in damaged]
    planners: SimpleQueue[RepairingPlanner] = SimpleQueue()
    for _ in range(folder.config.recovery_threads):
        buffer = padded_buffer(BUFFER_BYTES)
        planner = RepairingPlanner(folder.files, folder.path, buffer, is_brokers=is_brokers)
        planners.put(planner)

    def plan(topic_partition: TopicPartition) -> PartitionPlan | Damage:
        claim = claims.get(topic_partition)
        config = folder.config.log_config(topic_partition.topic)
        planner = planners.get()
        try:
            if isinstance(claim, Damage):
                return planner.plan_repair(claim, None, config)
            outcome = planner.plan(topic_partition, claim, config)
            if isinstance(outcome, Damage) and topic_partition in folder.repaired:
                outcome = planner.plan_repair(outcome, claim, config)
            return outcome
        finally:
            planners.put(planner)

    plans: dict[TopicPartition, PartitionPlan] = {}
    bytes_done = 0
    with ThreadPoolExecutor(folder.config.recovery_threads, "recovery") as pool:
        for done, outcome in enumerate(pool.map(plan, waiting), start=1):
            if isinstance(outcome, Damage):
                damaged[outcome.topic_partition] = _with_remedy(outcome)
            else:
                plans[outcome.topic_partition] = outcome
                bytes_done += outcome.bytes_scanned
            if on_progress is not None:
                on_progress(
                    RecoveryProgress(
                        partitions_done=done, partitions=len(waiting), bytes_done=bytes_done
                    )
                )
    return plans, damaged


def _with_remedy(damage: Damage) -> Damage:
    return attrs.evolve(damage, remedy=REPAIR_REMEDY)


# Signs of a broker that had the folder since ---------------------------------------------------


def broker_that_closed(folder: RecoveryRequest) -> str | None:
    """The sign that a broker closed the folder in order after offsetd; None if there is none."""
    path = folder.path / CLEAN_SHUTDOWN_NAME
    return f"a broker closed it ({path})" if folder.files.exists(path) else None


def broker_has_cleaned(folder: RecoveryRequest) -> bool:
    """Returns whether a broker wrote the cleaner's checkpoint."""
    try:
        return not was_written_here(folder.files, folder.path / CLEANER_CHECKPOINT)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return False


def broker_that_was_killed(
    plans: Mapping[TopicPartition, PartitionPlan], checkpoints: KafkaCheckpoints
) -> str | None:
    """The sign that a broker wrote above a recovery point; None if there is none.

    The sign is a leader epoch that offsetd never used, or a checkpoint above the journal's end with
    batches up to that checkpoint. (A checkpoint alone proves nothing: it has no checksum.)
    """
    for topic_partition, plan in plans.items():
        if plan.leader_epoch_cut > plan.leader_epoch_known:
            return f"a broker wrote to {topic_partition} (leader epoch {plan.leader_epoch_cut})"
        checkpoint = checkpoints.recovery_points.get(topic_partition, 0)
        if plan.recovered_offset_next < checkpoint <= plan.valid_offset_next:
            return f"a broker wrote to {topic_partition}, up to offset {checkpoint}"
    return None


def claims_after_broker(
    claims: Mapping[TopicPartition, Claim | Damage], broker: str
) -> dict[TopicPartition, Claim | Damage]:
    """The claims that still hold after a broker has written to the folder.

    If the journal had nothing to add to a log, the log counts as closed clean by the broker.
    Otherwise our commits and the broker's exclude each other. Raises ForeignWriter.
    """
    after = dict(claims)
    for topic_partition, claim in claims.items():
        if isinstance(claim, Damage) or claim.closed_clean:
            continue
        if not claim.holds_commits:
            after[topic_partition] = attrs.evolve(claim, closed_clean=True, batches=())
        elif claim.is_aside:
            reason = f"{broker}, while its quarantine file holds commits for it"
            after[topic_partition] = DamageFound(reason).of(topic_partition)
        else:
            raise ForeignWriter(
                f"{broker}, while the journal still held commits for {topic_partition}"
            )
    return after

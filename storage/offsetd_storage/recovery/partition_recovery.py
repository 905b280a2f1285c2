"""Recovery of one partition: the valid part of its log, and the batches that the journal adds.

`PartitionPlanner` reads every batch and changes nothing. `apply_plan` finishes interrupted swaps,
cuts the log, appends the journal's batches again, and syncs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from offsetd_storage.batch.record_batch import BatchHeader, batch_header
from offsetd_storage.errors import is_unreadable, words_of
from offsetd_storage.log.partition_log import PartitionLog
from offsetd_storage.log.segment_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_path,
)
from offsetd_storage.log.segment_list import remove_segment_list
from offsetd_storage.recovery.log_scanner import NO_LEADER_EPOCH, LogScanner
from offsetd_storage.recovery.partition_plan import PartitionPlan
from offsetd_storage.recovery.quarantine import Claim, Damage, DamageFound, require_whole
from offsetd_storage.recovery.repair_plan import put_aside
from offsetd_storage.recovery.segment_comparison import (
    NOTHING_KNOWN,
    OLDER_LIST,
    KnownSegments,
    known_of_longer,
    known_segments,
    may_be_a_brokers,
    require_not_ahead,
    require_point,
    require_same,
)
from offsetd_storage.recovery.swap_recovery import apply_swaps, unlink_orphans

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.log.segment_scan import SegmentScan
    from offsetd_storage.topic_partition import TopicPartition

_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)


class PartitionPlanner:
    """Plans the recovery of partitions, one after the other. Each thread has its own planner.

    If `is_brokers`, a broker has had the folder, so the list of segments is not used.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        buffer: npt.NDArray[np.uint8],
        *,
        is_brokers: bool = False,
    ) -> None:
        self._files = files
        self._data_folder = folder
        self._buffer = buffer
        self._is_brokers = is_brokers

    def plan(
        self, topic_partition: TopicPartition, claim: Claim | None, config: LogConfig
    ) -> PartitionPlan | Damage:
        """Reads all of a partition and checks it against its claim, if there is one.

        Raises OSError. But if the disk has lost the contents of a file, it returns Damage.
        """
        folder = self._data_folder / topic_partition.folder_name
        try:
            known = self._known(folder, claim)
            reader = LogScanner(self._files, folder, config, self._buffer)
            if claim is None:
                return _plan_whole_log(topic_partition, reader)
            if claim.closed_clean:
                return _plan_closed_log(topic_partition, reader, claim, known)
            return _plan_crashed_log(topic_partition, reader, claim, known)
        except DamageFound as found:
            return found.of(topic_partition)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return DamageFound(f"it cannot be read: {words_of(error)}").of(topic_partition)

    def _known(self, folder: Path, claim: Claim | None) -> KnownSegments:
        if claim is None or self._is_brokers or not self._files.exists(folder):
            return NOTHING_KNOWN
        known = known_segments(self._files, folder, claim.point)
        if may_be_a_brokers(self._files, folder, known, claim.point):
            return NOTHING_KNOWN
        return known


# Without a claim: check everything, cut only a torn tail -----------------------------------------


def _plan_whole_log(topic_partition: TopicPartition, reader: LogScanner) -> PartitionPlan:
    """Plans a log without a claim: its end is the end of its last valid batch.

    A bad batch is a torn tail only if no valid batch follows it, in any segment.
    """
    scans: dict[int, SegmentScan] = {}
    before: SegmentScan | None = None
    bytes_cut = 0
    for place, base_offset in enumerate(reader.base_offsets):
        scan = before = scans[base_offset] = reader.scan(base_offset, before)
        if scan.stop is None:
            continue
        later = reader.base_offsets[place + 1 :]
        if reader.has_valid_batch(base_offset, scan.stop.position) or any(
            reader.has_valid_batch(each, 0) for each in later
        ):
            require_whole(scan, base_offset)
        bytes_cut = reader.size(base_offset) - scan.valid_bytes + sum(map(reader.size, later))
        break
    return PartitionPlan(
        topic_partition=topic_partition,
        swap_plan=reader.swap_plan,
        scans=scans,
        dropped=reader.base_offsets[len(scans) :],
        offset_next=before.offset_next if before else 0,
        batches=(),
        bytes_cut=bytes_cut,
        bytes_scanned=reader.bytes_scanned,
        point=None,
    )


def _plan_closed_log(
    topic_partition: TopicPartition, reader: LogScanner, claim: Claim, known: KnownSegments
) -> PartitionPlan:
    """Plans a log that was closed clean. The plan is that without a claim, with more checks.

    The log must not be shorter than at its close. It may be longer if a broker has written to it
    since. If it is not longer, and there is no sign of a broker, its segments must be the same.
    """
    plan = _plan_whole_log(topic_partition, reader)
    is_shorter = known.listed is not None and bool(plan.scans) and reader.is_shorter(claim.point)
    if plan.offset_next < claim.point.offset or is_shorter:
        if not reader.base_offsets:
            raise DamageFound(_no_segment(claim.point))
        raise DamageFound(
            f"it ends at {plan.offset_next}, but was closed at {claim.point.offset}",
            base_offset=max(plan.scans, default=None),
            position=plan.scans[max(plan.scans)].valid_bytes if plan.scans else 0,
        )
    if not reader.is_as_closed(claim):
        # There is a list and no sign of a broker, so the log may come from another folder.
        if known.listed is not None or known.problem == OLDER_LIST:
            require_point(reader.scan_up_to(claim.point), claim.point)
        return attrs.evolve(plan, known=known_of_longer(known, plan.scans, claim.point))
    require_not_ahead(known, claim.point.offset)
    require_same(known, plan.scans, claim.point)
    return attrs.evolve(plan, point=claim.point, known=known, listed_below=claim.point.listed_below)


# After a crash: cut at the recovery point, append what the journal holds ------------------------


def _plan_crashed_log(
    topic_partition: TopicPartition, reader: LogScanner, claim: Claim, known: KnownSegments
) -> PartitionPlan:
    """Plans a log whose recovery point is in the journal, which was not closed.

    Below the point, everything was durable and must be valid. Above it, the log may have batches
    that were never acknowledged; the acknowledged batches are in the journal.
    """
    point = claim.point
    limits = _segments_below(reader, point)
    scans: dict[int, SegmentScan] = {}
    before: SegmentScan | None = None
    for base_offset, limit in limits.items():
        scan = reader.scan(base_offset, before, limit=limit)
        before = scans[base_offset] = require_whole(scan, base_offset)
    if before is not None and before.offset_next > point.offset:
        raise DamageFound(
            f"a batch reaches beyond the recovery point {point.offset}", base_offset=max(limits)
        )
    if before is not None and before.leader_epoch_last > point.leader_epoch:
        # A batch's checksum covers neither this field nor the offset.
        raise DamageFound(
            f"a batch has leader epoch {before.leader_epoch_last}, above {point.leader_epoch}",
            base_offset=max(limits),
        )
    require_same(known, scans, point)
    batches, headers = _continuing(claim)
    require_not_ahead(known, headers[-1].last_offset + 1 if headers else point.offset)
    behind = [each for each in reader.base_offsets if reader.size(each) > limits.get(each, -1)]
    bytes_behind = sum(reader.size(each) - limits.get(each, 0) for each in behind)
    scans_behind = {each: reader.scan(each, None) for each in behind}
    found = scans_behind.values()
    epoch_known = max([point.leader_epoch, *(each.partition_leader_epoch for each in headers)])
    epoch_cut = max([NO_LEADER_EPOCH, *(scan.leader_epoch_last for scan in found)])
    if epoch_cut > epoch_known and reader.is_of_journal(scans_behind, limits, batches):
        # The epoch was damaged on the disk: a broker would have written other batches.
        epoch_cut = NO_LEADER_EPOCH
    return PartitionPlan(
        topic_partition=topic_partition,
        swap_plan=reader.swap_plan,
        scans=scans,
        dropped=[each for each in reader.base_offsets if each not in limits],
        offset_next=point.offset,
        batches=batches,
        bytes_cut=max(0, bytes_behind - sum(map(len, batches))),
        bytes_scanned=reader.bytes_scanned,
        point=point,
        known=known,
        listed_below=point.listed_below,
        leader_epoch_cut=epoch_cut,
        leader_epoch_known=epoch_known,
        valid_offset_next=max([point.offset, *(scan.offset_next for scan in found)]),
    )


def _segments_below(reader: LogScanner, point: RecoveryPoint) -> dict[int, int]:
    """The segments up to the recovery point, with the number of bytes of each below it.

    The segment that had the point is not cleaned before the point has left it. So it must exist,
    and must not be shorter. If the log rolled exactly at the point, the point is the start of the
    next segment; the bytes after the point in the previous segment do not belong to the log.
    """
    limits = {each: reader.size(each) for each in reader.base_offsets if each <= point.offset}
    last, held_by = max(limits, default=None), point.segment_base_offset
    if held_by in limits and last in (held_by, point.offset):
        if limits[held_by] < point.segment_bytes:
            raise DamageFound(
                f"it ends before byte {point.segment_bytes}, up to which it was durable",
                base_offset=held_by,
                position=limits[held_by],
            )
        if last != held_by:
            limits[point.offset] = 0
        limits[held_by] = point.segment_bytes
    elif not reader.base_offsets and point.offset > 0:
        raise DamageFound(_no_segment(point))
    elif reader.base_offsets:
        raise DamageFound("the segment is missing", base_offset=held_by, position=None)
    return limits  # Empty if no batch of the partition was ever durable.


def _no_segment(point: RecoveryPoint) -> str:
    return f"its folder or its segments are missing; {point.offset} offsets were written to it"


def _continuing(claim: Claim) -> tuple[list[bytes], list[BatchHeader]]:
    """The journal's batches at and above the recovery point. Raises DamageFound at a gap."""
    offset_next = claim.point.offset
    batches, headers = [], []
    for batch in claim.batches:
        header = batch_header(batch)
        if header.last_offset < claim.point.offset:
            continue
        if header.base_offset != offset_next:
            raise DamageFound(
                f"the journal continues at {header.base_offset}, not at {offset_next}"
            )
        batches.append(batch)
        headers.append(header)
        offset_next = header.last_offset + 1
    return batches, headers


# Carrying it out ---------------------------------------------------------------------------------


def apply_plan(
    files: Files,
    folder: Path,
    plan: PartitionPlan,
    config: LogConfig,
    *,
    log_start_offset: int,
    now_ms: int,
    random: Random,
    is_listed: bool = True,
) -> PartitionLog:
    """Finishes swaps, cuts the log at its end, and appends the batches again, all durably.

    Raises OSError, StorageFull, StorageFailed. After a crash at any point it can be repeated.
    """
    log_folder = folder / plan.topic_partition.folder_name
    if files.exists(log_folder):
        # If a crash interrupts this function, the next start must still see that a broker had the
        # folder. So remove the outdated list first, and the broker's files after it.
        if plan.known.listed is None:
            remove_segment_list(files, log_folder)
        apply_swaps(files, log_folder, plan.swap_plan)
        put_aside(files, log_folder, plan.mended, now_ms=now_ms)
        _unlink_segments(files, log_folder, plan.dropped)
        unlink_orphans(files, log_folder)
    if plan.scans:
        log = _opened(files, log_folder, plan, config, log_start_offset, random)
    else:
        log = PartitionLog.create(
            files,
            log_folder,
            plan.topic_partition,
            config,
            base_offset=plan.offset_next,
            random=random,
        )
    try:
        if log.offset_next != plan.offset_next:
            log.truncate(plan.offset_next)
            if plan.repair is not None:
                log.roll()  # The name of the new segment is the log's end, even if it stays empty.
        # Without this sync, the log could roll next, and a crash could then restore the cut bytes.
        log.sync()
        for batch in plan.batches:
            header = batch_header(batch)
            log.append(
                batch,
                last_offset=header.last_offset,
                max_timestamp_ms=header.max_timestamp_ms,
                now_ms=now_ms,
            )
        log.write()
        log.sync()
        log.listing.is_kept = is_listed
        log.listing.take(plan.known.listed, below=plan.listed_below)
    except BaseException:
        log.abandon()
        raise
    return log


def _opened(
    files: Files,
    log_folder: Path,
    plan: PartitionPlan,
    config: LogConfig,
    log_start_offset: int,
    random: Random,
) -> PartitionLog:
    opened = partial(
        PartitionLog.open,
        files,
        log_folder,
        plan.topic_partition,
        config,
        plan.scans,
        log_start_offset=log_start_offset,
        leader_epoch=None if plan.point is None else plan.point.leader_epoch,
        synced=True,  # Recovery has synced the files that it reads, or knows that they are durable.
        random=random,
    )
    try:
        return opened()
    except OSError as error:
        if not is_unreadable(error):
            raise
    # The batches were readable. Indexes are derived, so they are made again.
    _unlink_segments(files, log_folder, list(plan.scans), suffixes=_INDEX_SUFFIXES)
    return opened()


def _unlink_segments(
    files: Files,
    folder: Path,
    base_offsets: Sequence[int],
    *,
    suffixes: Sequence[str] = (*_INDEX_SUFFIXES, LOG_SUFFIX),
) -> None:
    """Removes segments one by one from the end, so that a crash leaves the oldest ones."""
    for base_offset in sorted(base_offsets, reverse=True):
        for suffix in suffixes:
            path = segment_path(folder, base_offset, suffix)
            if files.exists(path):
                files.unlink(path)
        files.sync_folder(folder)

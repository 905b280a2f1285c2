"""One partition after a stop: what of its log holds, and what the journal adds.

`plan_partition` reads every batch and changes nothing; `apply_plan` cuts, appends again and syncs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.partition_log import PartitionLog
from offsetd_storage.quarantine import Claim, Damage
from offsetd_storage.record_batch import BatchHeader, batch_header
from offsetd_storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_base_offsets,
    segment_path,
)
from offsetd_storage.segment_scan import SegmentScan, scan_segment, valid_batch_after
from offsetd_storage.settle import unlink_orphans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from random import Random

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.files import Files
    from offsetd_storage.log_config import LogConfig
    from offsetd_storage.topic_partition import TopicPartition

_NO_LEADER_EPOCH = -1


@attrs.frozen(kw_only=True)
class PartitionPlan:
    """What recovery is going to do with a partition that is not damaged."""

    topic_partition: TopicPartition
    scans: Mapping[int, SegmentScan]  # Of the segments that stay, as far as they stay.
    dropped: Sequence[int]  # Base offsets of the segments that go.
    offset_next: int  # The log's end before batches are appended again.
    batches: Sequence[bytes]  # Those.
    bytes_cut: int  # Behind the end, and not among `batches` either.
    bytes_scanned: int
    # Of the batches that are cut, and of what is known to be ours: only a broker raises it.
    leader_epoch_cut: int
    leader_epoch_known: int


class _DamageFound(Exception):
    """Ends a plan: the partition is damaged."""

    def __init__(self, reason: str, *, base_offset: int | None = None, position: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.base_offset = base_offset
        self.position = position


class PartitionPlanner:
    """Plans the recovery of one partition after the other; one for each thread."""

    def __init__(self, files: Files, folder: Path, buffer: npt.NDArray[np.uint8]) -> None:
        self._files = files
        self._data_folder = folder
        self._buffer = buffer

    def plan(
        self, topic_partition: TopicPartition, claim: Claim | None, config: LogConfig
    ) -> PartitionPlan | Damage:
        """Reads all of a partition, and judges it by what was promised about it, if anything."""
        folder = self._data_folder / topic_partition.folder_name
        reader = _LogReader(self._files, folder, config, self._buffer)
        try:
            if claim is None:
                return _plan_whole_log(topic_partition, reader)
            if claim.closed_clean:
                return _plan_closed_log(topic_partition, reader, claim)
            return _plan_crashed_log(topic_partition, reader, claim)
        except _DamageFound as found:
            return Damage(
                topic_partition=topic_partition,
                segment_base_offset=found.base_offset,
                position=found.position,
                reason=found.reason,
            )


class _LogReader:
    """The segments of one folder, and what scanning them said."""

    def __init__(
        self, files: Files, folder: Path, config: LogConfig, buffer: npt.NDArray[np.uint8]
    ) -> None:
        self._files = files
        self._folder = folder
        self._config = config
        self._buffer = buffer
        self.bytes_scanned = 0
        self.base_offsets = segment_base_offsets(files, folder) if files.exists(folder) else []

    def size(self, base_offset: int) -> int:
        """Length of a segment's log file."""
        return self._files.size(segment_path(self._folder, base_offset))

    def scan(
        self, base_offset: int, before: SegmentScan | None, *, limit: int | None = None
    ) -> SegmentScan:
        """Checks the batches of a segment, which continues `before`, up to `limit`."""
        if before is not None and base_offset < before.offset_next:
            raise _DamageFound(
                f"it begins below {before.offset_next}, where the one before it ends",
                base_offset=base_offset,
            )
        file = self._files.open(segment_path(self._folder, base_offset), read_only=True)
        try:
            size = file.size() if limit is None else limit
            self.bytes_scanned += size
            return scan_segment(
                file,
                size=size,
                base_offset=base_offset,
                offset_min=base_offset,
                leader_epoch_min=before.leader_epoch_last if before else _NO_LEADER_EPOCH,
                index_interval_bytes=self._config.index_interval_bytes,
                buffer=self._buffer,
            )
        finally:
            file.close()

    def has_valid_batch(self, base_offset: int, position: int) -> bool:
        """Whether a valid batch lies at or behind `position` of a segment."""
        file = self._files.open(segment_path(self._folder, base_offset), read_only=True)
        try:
            found = valid_batch_after(file, position - 1, size=file.size(), offset_min=base_offset)
        finally:
            file.close()
        return found is not None


def _whole(base_offset: int, scan: SegmentScan) -> SegmentScan:
    """A scan that must not have stopped."""
    if scan.stop is not None:
        raise _DamageFound(
            f"a batch is damaged ({scan.stop.reason.name})",
            base_offset=base_offset,
            position=scan.stop.position,
        )
    return scan


# Without a promise: check everything, cut only a torn tail --------------------------------------


def _plan_whole_log(topic_partition: TopicPartition, reader: _LogReader) -> PartitionPlan:
    """A log that the journal says nothing of: its end is behind its last valid batch.

    A bad batch is a torn tail only if nothing valid follows it, in whatever segment.
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
            _whole(base_offset, scan)
        bytes_cut = reader.size(base_offset) - scan.valid_bytes + sum(map(reader.size, later))
        break
    return PartitionPlan(
        topic_partition=topic_partition,
        scans=scans,
        dropped=reader.base_offsets[len(scans) :],
        offset_next=before.offset_next if before else 0,
        batches=(),
        bytes_cut=bytes_cut,
        bytes_scanned=reader.bytes_scanned,
        leader_epoch_cut=_NO_LEADER_EPOCH,
        leader_epoch_known=_NO_LEADER_EPOCH,
    )


def _plan_closed_log(
    topic_partition: TopicPartition, reader: _LogReader, claim: Claim
) -> PartitionPlan:
    """A log that was closed clean: the same, but it has to reach as far as it did then.

    It may reach further: a broker may have written to it since.
    """
    plan = _plan_whole_log(topic_partition, reader)
    if plan.offset_next < claim.point.offset:
        raise _DamageFound(
            f"it ends at {plan.offset_next}, but was closed at {claim.point.offset}",
            base_offset=max(plan.scans, default=None),
            position=plan.scans[max(plan.scans)].valid_bytes if plan.scans else 0,
        )
    return plan


# After a crash: cut at the recovery point, append what the journal holds ------------------------


def _plan_crashed_log(
    topic_partition: TopicPartition, reader: _LogReader, claim: Claim
) -> PartitionPlan:
    """A log whose recovery point the journal has.

    Below that everything was durable and has to be valid; what lies above was perhaps never
    acknowledged, and what was acknowledged is in the journal.
    """
    point = claim.point
    kept, limit = _segments_below(reader, claim)
    scans: dict[int, SegmentScan] = {}
    before: SegmentScan | None = None
    for base_offset in kept:
        is_last = base_offset == kept[-1]
        scan = reader.scan(base_offset, before, limit=limit if is_last else None)
        before = scans[base_offset] = _whole(base_offset, scan)
    if before is not None and before.offset_next > point.offset:
        raise _DamageFound(
            f"a batch reaches beyond the recovery point {point.offset}", base_offset=kept[-1]
        )
    if before is not None and before.leader_epoch_last > point.leader_epoch:
        # A batch's checksum does not cover this field, nor its offset.
        raise _DamageFound(
            f"a batch has leader epoch {before.leader_epoch_last}, above {point.leader_epoch}",
            base_offset=kept[-1],
        )
    batches, headers = _continuing(claim)
    cut = reader.base_offsets[len(kept) :]
    bytes_behind = sum(map(reader.size, cut))
    if kept:
        bytes_behind += reader.size(kept[-1]) - limit
    epochs = [header.partition_leader_epoch for header in headers]
    return PartitionPlan(
        topic_partition=topic_partition,
        scans=scans,
        dropped=cut,
        offset_next=point.offset,
        batches=batches,
        bytes_cut=max(0, bytes_behind - sum(map(len, batches))),
        bytes_scanned=reader.bytes_scanned,
        leader_epoch_cut=_leader_epoch_behind(reader, kept, cut, limit),
        leader_epoch_known=max([point.leader_epoch, *epochs]),
    )


def _segments_below(reader: _LogReader, claim: Claim) -> tuple[list[int], int]:
    """The segments up to the recovery point, and the position of that in the last one.

    The segment that held the point when it was taken is not cleaned before the point has left it,
    so it has to be there, and as long. If the log rolled right at the point, the point is where
    the next segment begins.
    """
    point = claim.point
    kept = [base_offset for base_offset in reader.base_offsets if base_offset <= point.offset]
    last = kept[-1] if kept else None
    if last == point.segment_base_offset:
        size = reader.size(last)
        if size < point.segment_bytes:
            raise _DamageFound(
                f"it ends before byte {point.segment_bytes}, up to which it was durable",
                base_offset=last,
                position=size,
            )
        return kept, point.segment_bytes
    if last is not None and last == point.offset > point.segment_base_offset:
        return kept, 0
    if not reader.base_offsets and point.offset == 0:
        return [], 0  # Nothing was ever durable in it.
    raise _DamageFound("the segment is missing", base_offset=point.segment_base_offset)


def _continuing(claim: Claim) -> tuple[list[bytes], list[BatchHeader]]:
    """The journal's batches from the recovery point on, which must not leave a hole."""
    offset_next = claim.point.offset
    batches, headers = [], []
    for batch in claim.batches:
        header = batch_header(batch)
        if header.last_offset < claim.point.offset:
            continue
        if header.base_offset != offset_next:
            raise _DamageFound(
                f"the journal continues at {header.base_offset}, not at {offset_next}"
            )
        batches.append(batch)
        headers.append(header)
        offset_next = header.last_offset + 1
    return batches, headers


def _leader_epoch_behind(
    reader: _LogReader, kept: Sequence[int], cut: Sequence[int], limit: int
) -> int:
    """The largest leader epoch of the valid batches that are going to be cut."""
    epochs = [_NO_LEADER_EPOCH]
    if kept and reader.size(kept[-1]) > limit:
        epochs.append(reader.scan(kept[-1], None).leader_epoch_last)
    epochs += [reader.scan(base_offset, None).leader_epoch_last for base_offset in cut]
    return max(epochs)


# Doing it ------------------------------------------------------------------------------------


def apply_plan(
    files: Files,
    folder: Path,
    plan: PartitionPlan,
    config: LogConfig,
    *,
    log_start_offset: int,
    now_ms: int,
    random: Random,
) -> PartitionLog:
    """Cuts the log at its end, appends the batches again, and makes all of it durable.

    Raises OSError, StorageFull, StorageFailed; killed anywhere, it can be done again.
    """
    log_folder = folder / plan.topic_partition.folder_name
    if files.exists(log_folder):
        _unlink_segments(files, log_folder, plan.dropped)
        unlink_orphans(files, log_folder)
    if plan.scans:
        log = PartitionLog.open(
            files,
            log_folder,
            plan.topic_partition,
            config,
            plan.scans,
            log_start_offset=log_start_offset,
            synced=True,  # Recovery syncs what it is going to read.
            random=random,
        )
    else:
        log = PartitionLog.create(files, log_folder, plan.topic_partition, config, random=random)
    try:
        if log.offset_next != plan.offset_next:
            log.truncate(plan.offset_next)
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
    except BaseException:
        log.abandon()
        raise
    return log


def _unlink_segments(files: Files, folder: Path, base_offsets: Sequence[int]) -> None:
    for base_offset in sorted(base_offsets, reverse=True):
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            path = segment_path(folder, base_offset, suffix)
            if files.exists(path):
                files.unlink(path)
    if base_offsets:
        files.sync_folder(folder)

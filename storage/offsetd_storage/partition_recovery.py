"""One partition after a stop: what of its log holds, and what the journal adds.

`PartitionPlanner` reads every batch and changes nothing; `apply_plan` settles, cuts, appends again
and syncs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from offsetd_storage.errors import CorruptBatch, is_unreadable
from offsetd_storage.partition_log import PartitionLog
from offsetd_storage.quarantine import Claim, Damage, DamageFound, require_whole
from offsetd_storage.record_batch import BatchHeader, batch_header
from offsetd_storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_base_offsets,
    segment_path,
)
from offsetd_storage.segment_scan import SegmentScan, scan_file
from offsetd_storage.settle import Settling, plan_settling, settle, unlink_orphans
from offsetd_storage.tail_search import is_valid_batch_at, valid_batch_after

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from random import Random

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.files import Files
    from offsetd_storage.journal_format import RecoveryPoint
    from offsetd_storage.log_config import LogConfig
    from offsetd_storage.topic_partition import TopicPartition

_NO_LEADER_EPOCH = -1
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_SEGMENT_BYTES_MAX = 2**31 - 1  # Positions in it are 32-bit numbers; Kafka opens no larger one.


@attrs.frozen(kw_only=True)
class PartitionPlan:
    """What recovery is going to do with a partition that is not damaged."""

    topic_partition: TopicPartition
    settling: Settling
    scans: Mapping[int, SegmentScan]  # Of the segments that stay, as far as they stay.
    dropped: Sequence[int]  # Base offsets of the segments that go.
    offset_next: int  # The log's end before batches are appended again.
    batches: Sequence[bytes]  # Those.
    bytes_cut: int  # Behind the end, and not among `batches` either.
    bytes_scanned: int
    # The claim's point, where nobody but us has written since: then it says where the log starts,
    # and which leader epoch our batches carry. The checkpoints hold no checksum.
    point: RecoveryPoint | None
    # Of the batches that are cut, and of what is known to be ours: only a broker raises it.
    leader_epoch_cut: int = _NO_LEADER_EPOCH
    leader_epoch_known: int = _NO_LEADER_EPOCH
    valid_offset_next: int = 0  # Behind those batches.

    @property
    def recovered_offset_next(self) -> int:
        """The log's end after recovery."""
        return batch_header(self.batches[-1]).last_offset + 1 if self.batches else self.offset_next


class PartitionPlanner:
    """Plans the recovery of one partition after the other; one for each thread."""

    def __init__(self, files: Files, folder: Path, buffer: npt.NDArray[np.uint8]) -> None:
        self._files = files
        self._data_folder = folder
        self._buffer = buffer

    def plan(
        self, topic_partition: TopicPartition, claim: Claim | None, config: LogConfig
    ) -> PartitionPlan | Damage:
        """Reads all of a partition, and judges it by what was promised about it, if anything.

        Raises OSError, but where the disk cannot give back what it holds: that is damage.
        """
        folder = self._data_folder / topic_partition.folder_name
        try:
            reader = _LogReader(self._files, folder, config, self._buffer)
            if claim is None:
                return _plan_whole_log(topic_partition, reader)
            if claim.closed_clean:
                return _plan_closed_log(topic_partition, reader, claim)
            return _plan_crashed_log(topic_partition, reader, claim)
        except DamageFound as found:
            return found.of(topic_partition)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return DamageFound(f"it cannot be read: {error}").of(topic_partition)


def is_as_closed(files: Files, folder: Path, point: RecoveryPoint) -> bool:
    """Whether a log ends where it did when it was closed: then nobody has appended to it since."""
    last = max(segment_base_offsets(files, folder), default=None)
    return (
        last == point.segment_base_offset
        and files.size(segment_path(folder, last)) == point.segment_bytes
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
        self.settling = plan_settling(files, folder)
        self.base_offsets = sorted(self.settling.log_names)  # As they are once that is done.

    def is_as_closed(self, claim: Claim) -> bool:
        """Whether nobody has appended since the claim was made."""
        return bool(self.base_offsets) and is_as_closed(self._files, self._folder, claim.point)

    def _path(self, base_offset: int) -> Path:
        return self._folder / self.settling.log_names[base_offset]

    def size(self, base_offset: int) -> int:
        """Length of a segment's log file."""
        size = self._files.size(self._path(base_offset))
        if size > _SEGMENT_BYTES_MAX:
            raise DamageFound(f"it has {size} bytes, more than a segment", base_offset=base_offset)
        return size

    def scan(
        self, base_offset: int, before: SegmentScan | None, *, limit: int | None = None
    ) -> SegmentScan:
        """Checks the batches of a segment, which continues `before`, up to `limit`."""
        if before is not None and base_offset < before.offset_next:
            raise DamageFound(
                f"it begins below {before.offset_next}, where the one before it ends",
                base_offset=base_offset,
            )
        size = self.size(base_offset) if limit is None else limit
        self.bytes_scanned += size
        return scan_file(
            self._files,
            self._path(base_offset),
            size=size,
            base_offset=base_offset,
            leader_epoch_min=before.leader_epoch_last if before else _NO_LEADER_EPOCH,
            index_interval_bytes=self._config.index_interval_bytes,
            buffer=self._buffer,
        )

    def has_valid_batch(self, base_offset: int, position: int) -> bool:
        """Whether a valid batch lies at or behind `position` of a segment, or may lie there."""
        size = self.size(base_offset)
        file = self._files.open(self._path(base_offset), read_only=True)
        try:
            return (
                is_valid_batch_at(file, position, size=size)
                or valid_batch_after(file, position - 1, size=size, offset_min=base_offset)
                is not None
            )
        except CorruptBatch:
            return True  # It cannot be told: nothing may be cut.
        finally:
            file.close()


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
            require_whole(scan, base_offset)
        bytes_cut = reader.size(base_offset) - scan.valid_bytes + sum(map(reader.size, later))
        break
    return PartitionPlan(
        topic_partition=topic_partition,
        settling=reader.settling,
        scans=scans,
        dropped=reader.base_offsets[len(scans) :],
        offset_next=before.offset_next if before else 0,
        batches=(),
        bytes_cut=bytes_cut,
        bytes_scanned=reader.bytes_scanned,
        point=None,
    )


def _plan_closed_log(
    topic_partition: TopicPartition, reader: _LogReader, claim: Claim
) -> PartitionPlan:
    """A log that was closed clean: the same, but it has to reach as far as it did then.

    It may reach further: a broker may have written to it since.
    """
    plan = _plan_whole_log(topic_partition, reader)
    if plan.offset_next < claim.point.offset:
        if not reader.base_offsets:
            raise DamageFound(_no_segment(claim.point))
        raise DamageFound(
            f"it ends at {plan.offset_next}, but was closed at {claim.point.offset}",
            base_offset=max(plan.scans, default=None),
            position=plan.scans[max(plan.scans)].valid_bytes if plan.scans else 0,
        )
    return attrs.evolve(plan, point=claim.point if reader.is_as_closed(claim) else None)


# After a crash: cut at the recovery point, append what the journal holds ------------------------


def _plan_crashed_log(
    topic_partition: TopicPartition, reader: _LogReader, claim: Claim
) -> PartitionPlan:
    """A log whose recovery point the journal has.

    Below that everything was durable and has to be valid; what lies above was perhaps never
    acknowledged, and what was acknowledged is in the journal.
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
        # A batch's checksum does not cover this field, nor its offset.
        raise DamageFound(
            f"a batch has leader epoch {before.leader_epoch_last}, above {point.leader_epoch}",
            base_offset=max(limits),
        )
    batches, headers = _continuing(claim)
    behind = [each for each in reader.base_offsets if reader.size(each) > limits.get(each, -1)]
    bytes_behind = sum(reader.size(each) - limits.get(each, 0) for each in behind)
    scans_behind = [reader.scan(each, None) for each in behind]
    return PartitionPlan(
        topic_partition=topic_partition,
        settling=reader.settling,
        scans=scans,
        dropped=[each for each in reader.base_offsets if each not in limits],
        offset_next=point.offset,
        batches=batches,
        bytes_cut=max(0, bytes_behind - sum(map(len, batches))),
        bytes_scanned=reader.bytes_scanned,
        point=point,
        leader_epoch_cut=max(
            (scan.leader_epoch_last for scan in scans_behind), default=_NO_LEADER_EPOCH
        ),
        leader_epoch_known=max(
            [point.leader_epoch, *(each.partition_leader_epoch for each in headers)]
        ),
        valid_offset_next=max((scan.offset_next for scan in scans_behind), default=point.offset),
    )


def _segments_below(reader: _LogReader, point: RecoveryPoint) -> dict[int, int]:
    """The segments up to the recovery point, and how many bytes of each are below it.

    The segment that held the point when it was taken is not cleaned before the point has left it,
    so it has to be there, and as long. If the log rolled right at the point, the point is where
    the next segment begins, and what the one before it has behind the point is none of the log's.
    """
    limits = {each: reader.size(each) for each in reader.base_offsets if each <= point.offset}
    last, held_by = max(limits, default=None), point.segment_base_offset
    if last == held_by:
        if limits[last] < point.segment_bytes:
            raise DamageFound(
                f"it ends before byte {point.segment_bytes}, up to which it was durable",
                base_offset=last,
                position=limits[last],
            )
        limits[last] = point.segment_bytes
    elif last is not None and last == point.offset > held_by:
        limits[last] = 0
        if held_by in limits:
            limits[held_by] = min(limits[held_by], point.segment_bytes)
    elif not reader.base_offsets and point.offset > 0:
        raise DamageFound(_no_segment(point))
    elif reader.base_offsets:
        raise DamageFound("the segment is missing", base_offset=held_by)
    return limits  # Empty where nothing was ever durable.


def _no_segment(point: RecoveryPoint) -> str:
    return (
        f"its folder is missing or holds no segment, and {point.offset} offsets were written to it:"
        " put the folder back, or have it begin anew, empty, with `offsetd log recreate`"
    )


def _continuing(claim: Claim) -> tuple[list[bytes], list[BatchHeader]]:
    """The journal's batches from the recovery point on, which must not leave a hole."""
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
    """Settles the folder, cuts the log at its end, appends the batches again, all durably.

    Raises OSError, StorageFull, StorageFailed; killed anywhere, it can be done again.
    """
    log_folder = folder / plan.topic_partition.folder_name
    if files.exists(log_folder):
        settle(files, log_folder, plan.settling)
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
        log.sync()  # Else, if the log now rolls, a crash could bring back what was cut before that.
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
        synced=True,  # Recovery syncs what it is going to read, unless it knows that it is.
        random=random,
    )
    try:
        return opened()
    except OSError as error:
        if not is_unreadable(error):
            raise
    # The batches could be read. Indexes are derived: they are made anew.
    _unlink_segments(files, log_folder, list(plan.scans), suffixes=_INDEX_SUFFIXES)
    return opened()


def _unlink_segments(
    files: Files,
    folder: Path,
    base_offsets: Sequence[int],
    *,
    suffixes: Sequence[str] = (*_INDEX_SUFFIXES, LOG_SUFFIX),
) -> None:
    """From the end, one after the other, so that a crash leaves no log without its oldest ones."""
    for base_offset in sorted(base_offsets, reverse=True):
        for suffix in suffixes:
            path = segment_path(folder, base_offset, suffix)
            if files.exists(path):
                files.unlink(path)
        files.sync_folder(folder)

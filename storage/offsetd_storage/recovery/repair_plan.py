"""The plan of a repair that an operator asks for: which parts of a damaged log are valid.

Nothing is thrown away. Valid segments are not changed. A segment with bad bytes is written again
without them, and the original is kept as `<segment>.log.damaged-<time>`, which offsetd never
removes. The batches in the journal or in a quarantine file are appended again. Missing records stay
missing.

Only batches with a valid checksum are kept. The checksum does not cover a batch's offset and its
leader epoch: a batch whose offset does not fit between its neighbours is left out, and an
impossible epoch is corrected. After a bad batch, the search for the next batch begins at the end
that the bad batch's length field gives. Otherwise it could first find client bytes that are formed
like a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import attrs

from offsetd_storage.batch.record_batch import BatchHeader, batch_header, computed_crc
from offsetd_storage.disk.files import replace_file
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import padded_copy
from offsetd_storage.kernels.encode import LEADER_EPOCH_AT
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.log.segment_scan import SegmentScan, scan_segment
from offsetd_storage.recovery.tail_search import valid_batch_after

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from offsetd_storage.disk.files import File, Files
    from offsetd_storage.topic_partition import TopicPartition

ASIDE_SUFFIX: Final = ".damaged-"
_EPOCH_BYTES: Final = 4
_OFFSET_MAX: Final = 2**63 - 1


@attrs.frozen(kw_only=True)
class BadBytes:
    """Bytes of a segment that a repair leaves out of the log."""

    base_offset: int  # The segment's base offset.
    position: int
    content: bytes = attrs.field(repr=False)
    reason: str
    log_offset: int = 0
    """Batches before these bytes have smaller log offsets; batches behind them have no smaller."""


@attrs.frozen(kw_only=True)
class KeptSegment:
    """A segment of the repaired log. `content` is None if it is the beginning of the file."""

    base_offset: int
    valid_bytes: int
    content: bytes | None = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Repair:
    """The changes that a repair makes to a partition."""

    topic_partition: TopicPartition
    damage: str
    bytes_kept: int
    bad: tuple[BadBytes, ...]
    missing: tuple[str, ...]  # The parts that are missing, and stay missing.
    kept: tuple[KeptSegment, ...]
    appended: tuple[bytes, ...] = attrs.field(repr=False)
    """The batches that come from the journal, or from the quarantine file."""

    def kept_batches(self, files: Files, log_folder: Path) -> Iterator[bytes]:
        """The batches that the log has after the repair, before and after it is carried out."""
        for segment in self.kept:
            content = segment.content
            if content is None:
                path = segment_path(log_folder, segment.base_offset)
                content = files.read_bytes(path)[: segment.valid_bytes]
            yield from split_batches(content)
        yield from self.appended


@attrs.frozen(kw_only=True)
class Bounds:
    """The offsets and leader epochs that the batches of a segment may have."""

    offset_min: int
    offset_end: int = _OFFSET_MAX  # Exclusive.
    epoch_min: int = -1
    epoch_max: int | None = None  # None if it is not known.

    def take(self, scan: SegmentScan) -> bool:
        """Returns whether a scanned segment is whole and within the bounds."""
        return (
            scan.stop is None
            and scan.offset_next <= self.offset_end
            and (self.epoch_max is None or scan.leader_epoch_last <= self.epoch_max)
        )


@attrs.frozen(kw_only=True)
class MendedSegment:
    """A segment without its bad bytes."""

    content: bytes = attrs.field(repr=False)
    scan: SegmentScan
    bad: tuple[BadBytes, ...]


@attrs.frozen
class _Batch:
    position: int
    header: BatchHeader
    content: bytes


class _FileInMemory:
    """Bytes in memory that are read like a file."""

    def __init__(self, content: bytes) -> None:
        self._content = padded_copy(content)
        self._size = len(content)

    def pread_into(self, buffer: npt.NDArray[np.uint8], size: int, position: int) -> int:
        """Copies up to `size` bytes at `position` to `buffer`, as `File.pread_into` does."""
        read = max(0, min(size, self._size - position))
        buffer[:read] = self._content[position : position + read]
        return read


def mended_segment(
    content: bytes, base_offset: int, bounds: Bounds, *, index_interval_bytes: int
) -> MendedSegment:
    """Keeps the valid batches of a segment that fit in the bounds.

    Raises CorruptBatch if the search takes too long.
    """
    batches, bad = _valid_batches(content, base_offset)
    kept: list[bytes] = []
    ends: list[tuple[int, int]] = []
    start = offset_next = max(bounds.offset_min, base_offset)
    epoch = bounds.epoch_min
    for place, batch in enumerate(batches):
        following = batches[place + 1].header if place + 1 < len(batches) else None
        reason = _misfit(batch.header, following, offset_next, bounds)
        if reason is not None:
            bad.append(_bad(base_offset, batch.position, batch.content, reason))
            continue
        epoch = _epoch(batch.header.partition_leader_epoch, epoch, bounds)
        kept.append(_with_epoch(batch.content, epoch))
        offset_next = batch.header.last_offset + 1
        ends.append((batch.position, offset_next))
    mended = b"".join(kept)
    scan = scan_segment(
        cast("File", _FileInMemory(mended)),
        size=len(mended),
        base_offset=base_offset,
        offset_min=0,
        leader_epoch_min=bounds.epoch_min,
        index_interval_bytes=index_interval_bytes,
    )
    if scan.stop is not None:
        raise CorruptBatch(
            f"a batch of {base_offset:020d}.log cannot be kept ({scan.stop.reason.name})",
            position=scan.stop.position,
        )
    bad.sort(key=lambda each: each.position)
    placed = [attrs.evolve(each, log_offset=_end_before(each, ends, start)) for each in bad]
    return MendedSegment(content=mended, scan=scan, bad=tuple(placed))


def _end_before(bad: BadBytes, ends: Sequence[tuple[int, int]], start: int) -> int:
    """The end of the kept batches before some bytes; `ends` has their positions and ends."""
    return max((end for position, end in ends if position < bad.position), default=start)


def split_batches(content: bytes) -> Iterator[bytes]:
    """The batches of a segment's bytes, up to the first position that has no header."""
    position = 0
    while position < len(content):
        try:
            size = batch_header(content, position).size_bytes
        except CorruptBatch:
            return
        yield content[position : position + size]
        position += size


def _valid_batches(content: bytes, base_offset: int) -> tuple[list[_Batch], list[BadBytes]]:
    """All batches with a valid checksum, and the bytes between them."""
    file = cast("File", _FileInMemory(content))
    batches: list[_Batch] = []
    bad: list[BadBytes] = []
    position, size = 0, len(content)
    while position < size:
        batch = _batch_at(content, position)
        if batch is not None:
            batches.append(batch)
            position += batch.header.size_bytes
            continue
        following = _where_length_leads(content, position)
        if following is None:
            following = valid_batch_after(file, position, size=size, offset_min=0)
        end = size if following is None else following
        bad.append(_bad(base_offset, position, content[position:end], "a batch is damaged"))
        position = end
    return batches, bad


def _batch_at(content: bytes, position: int) -> _Batch | None:
    try:
        header = batch_header(content, position)
    except CorruptBatch:
        return None
    batch = content[position : position + header.size_bytes]
    if len(batch) < header.size_bytes or computed_crc(batch) != header.crc:
        return None
    return _Batch(position, header, batch)


def _where_length_leads(content: bytes, position: int) -> int | None:
    """The end of a bad batch by its length, if a valid batch or the segment's end is there."""
    try:
        end = position + batch_header(content, position).size_bytes
    except CorruptBatch:
        return None
    return end if end == len(content) or _batch_at(content, end) is not None else None


def _misfit(
    header: BatchHeader, following: BatchHeader | None, offset_next: int, bounds: Bounds
) -> str | None:
    """The reason for which a valid batch does not fit at its place, or None."""
    if header.base_offset < offset_next:
        return f"its offset {header.base_offset} is below {offset_next}, the least here"
    if header.last_offset >= bounds.offset_end:
        return f"its offset {header.last_offset} is not below {bounds.offset_end}, the limit here"
    if following is not None and offset_next <= following.base_offset <= header.last_offset:
        return f"its offset {header.last_offset} is above that of the batch behind it"
    return None


def _epoch(found: int, before: int, bounds: Bounds) -> int:
    is_possible = found >= before and (bounds.epoch_max is None or found <= bounds.epoch_max)
    return found if is_possible else max(before, 0)


def _with_epoch(batch: bytes, epoch: int) -> bytes:
    encoded = epoch.to_bytes(_EPOCH_BYTES, "big", signed=True)
    return batch[:LEADER_EPOCH_AT] + encoded + batch[LEADER_EPOCH_AT + _EPOCH_BYTES :]


def _bad(base_offset: int, position: int, content: bytes, reason: str) -> BadBytes:
    return BadBytes(base_offset=base_offset, position=position, content=content, reason=reason)


def bytes_beside(
    content: bytes, base_offset: int, appended: Sequence[bytes]
) -> tuple[BadBytes, ...]:
    """The batches of a segment above the recovery point that the journal does not have."""
    known = {(header.base_offset, header.crc) for header in map(batch_header, appended)}
    return tuple(
        attrs.evolve(
            _bad(base_offset, each.position, each.content, "the journal does not have it"),
            log_offset=each.header.base_offset,
        )
        for each in _valid_batches(content, base_offset)[0]
        if (each.header.base_offset, each.header.crc) not in known
    )


def continued(batches: Sequence[bytes], offset: int) -> list[bytes]:
    """The journal's batches that a log can take at or above `offset`, even after a gap."""
    taken = []
    for batch in batches:
        header = batch_header(batch)
        if header.base_offset >= offset:
            taken.append(batch)
            offset = header.last_offset + 1
    return taken


def put_aside(
    files: Files, log_folder: Path, mended: Mapping[int, MendedSegment], *, now_ms: int
) -> None:
    """Keeps copies of damaged segments and writes the mended ones. Repeatable after a crash."""
    for base_offset, segment in mended.items():
        path = segment_path(log_folder, base_offset)
        content = files.read_bytes(path)
        if content == segment.content:
            continue
        replace_file(files, path.with_name(f"{path.name}{ASIDE_SUFFIX}{now_ms}"), content)
        if segment.content:
            replace_file(files, path, segment.content)

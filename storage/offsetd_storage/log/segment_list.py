"""The file `offsetd.segments` in a partition's folder: the list of the log's segments.

If a segment is missing, or is cut between two batches, all batches of the log are still valid; and
no checksum covers the first 17 bytes of a batch. So the file lists each segment below the one that
holds the recovery point, with its end and the digest of its headers. For the segment that holds the
recovery point, the point itself has both. `docs/formats/segments.md` says when the list is written.

A swap of the cleaner is listed before it begins. After that, the folder holds either the segments
that are replaced, or their replacements, perhaps with the last few of the replaced ones
(`log.segment_swap`, step 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.files import read_start, replace_file
from offsetd_storage.errors import NewerFormat, is_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.segment import Segment
    from offsetd_storage.log.segment_scan import SegmentScan

SEGMENT_LIST_NAME: Final = "offsetd.segments"
SEGMENT_LIST_VERSION: Final = 1
SNAPSHOT_SUFFIX: Final = ".snapshot"

_BYTES_MAX: Final = 64 << 20
_VERSION: Final = "format.version"
_BELOW: Final = "below"
_SNAPSHOT: Final = "snapshot"
_SEGMENT: Final = "segment"
_REPLACED: Final = "replaced"
_CHECKSUM: Final = "checksum"


@attrs.frozen(kw_only=True)
class ListedSegment:
    """A segment that takes no more appends: its end, and the digest of its headers."""

    base_offset: int
    offset_next: int  # The end of its last batch.
    size_bytes: int
    headers_digest: int  # See `SegmentScan`.

    @classmethod
    def of_scan(cls, base_offset: int, scan: SegmentScan) -> ListedSegment:
        """The entry for a segment that was scanned."""
        return cls(
            base_offset=base_offset,
            offset_next=scan.offset_next,
            size_bytes=scan.valid_bytes,
            headers_digest=scan.headers_digest,
        )

    @classmethod
    def of_segment(cls, segment: Segment) -> ListedSegment:
        """The entry for a segment of an open log, all written. Raises CorruptBatch, OSError."""
        size_bytes, known = segment.size_bytes, segment.headers_digest
        if known.size_bytes < size_bytes:
            with segment.reader() as reader:
                known.up_to(reader.file, size_bytes)
        return cls(
            base_offset=segment.base_offset,
            offset_next=segment.offset_next,
            size_bytes=size_bytes,
            headers_digest=known.digest,
        )


@attrs.frozen(kw_only=True)
class SegmentList:
    """The segments of a log that begin below an offset."""

    below: int
    segments: tuple[ListedSegment, ...]  # By base offset.
    # The segments that a swap replaces with `segments`. The list does not say whether the swap has
    # begun or ended.
    replaced: tuple[ListedSegment, ...] = ()
    # The offsets of a broker's snapshots of producers. A new one shows that a broker had the log.
    snapshots: tuple[int, ...] = ()


class SegmentFlaw(NamedTuple):
    """A difference between a segment and the list."""

    base_offset: int
    reason: str


class SegmentListDamaged(ValueError):
    """The list of segments is cut, has a bad checksum, or has impossible values."""


# What is wrong with a log ----------------------------------------------------------------------


def segment_flaws(
    listed: SegmentList,
    found: Mapping[int, ListedSegment],
    *,
    below: int,
    log_start_offset: int,
) -> list[SegmentFlaw]:
    """The differences between the list and the segments that begin below `below`, by base offset.

    Segments below the log's start may be missing, because they are being deleted. `listed.below` is
    not less than `below`.
    """
    there = [each for each in found.values() if each.base_offset < below]
    least: list[SegmentFlaw] | None = None
    for expected in _expected(listed):
        row = [each for each in expected if each.base_offset < below]
        flaws = _flaws(row, there, log_start_offset)
        if least is None or len(flaws) < len(least):
            least = flaws
        if not least:
            return []
    return least or []


def _expected(listed: SegmentList) -> Iterator[Sequence[ListedSegment]]:
    """The lists of segments that are right: more than one during a swap."""
    yield listed.segments
    if not listed.replaced:
        return
    start, end = listed.replaced[0].base_offset, listed.replaced[-1].base_offset
    before = [each for each in listed.segments if each.base_offset < start]
    swapped = [each for each in listed.segments if start <= each.base_offset <= end]
    behind = [each for each in listed.segments if each.base_offset > end]
    yield [*before, *listed.replaced, *behind]
    covered_next = max((each.offset_next for each in swapped), default=0)
    left = [each for each in listed.replaced if each.base_offset >= covered_next]
    for count in range(1, len(left) + 1):
        yield [*before, *swapped, *left[-count:], *behind]


def _flaws(
    expected: Sequence[ListedSegment], there: Sequence[ListedSegment], log_start_offset: int
) -> list[SegmentFlaw]:
    found = {each.base_offset: each for each in there}
    listed = {each.base_offset: each for each in expected}
    flaws = []
    for base_offset in sorted(found | listed):
        reason = _flaw(listed.get(base_offset), found.get(base_offset), log_start_offset)
        if reason:
            flaws.append(SegmentFlaw(base_offset, reason))
    return flaws


def _flaw(
    listed: ListedSegment | None, found: ListedSegment | None, log_start_offset: int
) -> str | None:
    if found is None:
        assert listed is not None
        is_deleted = listed.offset_next <= log_start_offset
        return None if is_deleted else "the segment is missing"
    if listed is None:
        is_deleted = found.offset_next <= log_start_offset
        return None if is_deleted else "the segment is not one of the log's"
    return batches_flaw(found.size_bytes, listed.size_bytes) or headers_flaw(
        found.headers_digest, listed.headers_digest
    )


def batches_flaw(found_bytes: int, written_bytes: int) -> str | None:
    """The flaw of a segment of valid batches whose size differs; None if the size is right."""
    if found_bytes == written_bytes:
        return None
    return f"the segment has {found_bytes} bytes of batches, not {written_bytes}"


def headers_flaw(found: int, written: int) -> str | None:
    """The flaw of batches with valid checksums whose headers differ; None if they are right."""
    return None if found == written else "a batch's header is not as it was written"


# The file --------------------------------------------------------------------------------------


def read_segment_list(files: Files, log_folder: Path) -> SegmentList | None:
    """The list in a partition's folder; None if there is none.

    Raises SegmentListDamaged, also if the disk cannot read the file; NewerFormat; OSError.
    """
    path = log_folder / SEGMENT_LIST_NAME
    if not files.exists(path):
        return None
    try:
        content = read_start(files, path, _BYTES_MAX)
    except OSError as error:
        if not is_unreadable(error):
            raise
        raise SegmentListDamaged(f"it cannot be read: {error}") from error
    body, _, _ = content.rpartition(f"{_CHECKSUM}=".encode())
    if content != _with_checksum(body):
        raise SegmentListDamaged("its checksum is wrong")
    values: dict[str, list[str]] = {}
    for line in body.decode(errors="replace").splitlines():
        name, _, value = line.partition("=")
        values.setdefault(name, []).append(value)
    version = values.get(_VERSION, [""])[0]
    if version.isdigit() and int(version) > SEGMENT_LIST_VERSION:
        raise NewerFormat.of(path, version, SEGMENT_LIST_VERSION)
    try:
        return SegmentList(
            below=int(values[_BELOW][0]),
            segments=tuple(map(_decoded, values.get(_SEGMENT, []))),
            replaced=tuple(map(_decoded, values.get(_REPLACED, []))),
            snapshots=tuple(map(int, values.get(_SNAPSHOT, []))),
        )
    except (KeyError, ValueError) as error:
        raise SegmentListDamaged(f"it has impossible values: {error}") from error


def write_segment_list(files: Files, log_folder: Path, listed: SegmentList) -> None:
    """Replaces the list in a partition's folder, durably. Raises OSError."""
    lines = [f"{_VERSION}={SEGMENT_LIST_VERSION}", f"{_BELOW}={listed.below}"]
    lines += [f"{_SNAPSHOT}={offset}" for offset in listed.snapshots]
    lines += [f"{_SEGMENT}={_encoded(each)}" for each in listed.segments]
    lines += [f"{_REPLACED}={_encoded(each)}" for each in listed.replaced]
    body = "".join(f"{line}\n" for line in lines).encode()
    replace_file(files, log_folder / SEGMENT_LIST_NAME, _with_checksum(body))


def remove_segment_list(files: Files, log_folder: Path) -> None:
    """Removes the list, durably."""
    path = log_folder / SEGMENT_LIST_NAME
    if files.exists(path):
        files.unlink(path)
        files.sync_folder(log_folder)


def found_snapshots(files: Files, log_folder: Path) -> tuple[int, ...]:
    """The offsets of a broker's snapshots in a partition's folder."""
    return tuple(_snapshot_offsets(files.list_folder(log_folder)))


def _snapshot_offsets(names: Iterable[str]) -> Iterator[int]:
    for name in names:
        stem = name.removesuffix(SNAPSHOT_SUFFIX)
        if stem != name and stem.isascii() and stem.isdigit():
            yield int(stem)


def _encoded(segment: ListedSegment) -> str:
    return (
        f"{segment.base_offset} {segment.offset_next} {segment.size_bytes}"
        f" {segment.headers_digest:08x}"
    )


def _decoded(value: str) -> ListedSegment:
    base_offset, offset_next, size_bytes, headers_digest = value.split(" ")
    return ListedSegment(
        base_offset=int(base_offset),
        offset_next=int(offset_next),
        size_bytes=int(size_bytes),
        headers_digest=int(headers_digest, 16),
    )


def _with_checksum(body: bytes) -> bytes:
    return body + f"{_CHECKSUM}={checksum(body):08x}\n".encode()

"""The bytes of a journal file: one header, then frames. All integers are big-endian.

Header, at the file's start:

    magic 8 · version u32 · CRC32C u32 of these 12 bytes      (never changes, in any version)
    header CRC32C u32 · header bytes u32 · frames start u32 · reserved u32
    file bytes u64 · folder id 16 · life u64 · file number u64 · first sequence u64
    recovery points

Frame, aligned to 8 bytes:

    mark 8 · CRC32C u32 of what follows · payload bytes u32
    life u64 · sequence u64 · kind u8 · reserved 7 · payload

The mark is a secret of the folder, so clients' bytes inside a payload cannot look like a frame.

`docs/formats/journal.md` says what the fields mean, and how a journal is recovered.
"""

from __future__ import annotations

import enum
import functools
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np

from offsetd_storage.disk.checksums import checksum
from offsetd_storage.errors import NewerFormat
from offsetd_storage.folder.folder_format import MARK_BYTES
from offsetd_storage.kernels import padded_buffer
from offsetd_storage.kernels.crc32c import crc32c
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

# In version 1, each entry of a BATCHES frame was one batch. In version 2, recovery points had no
# digest of headers, and did not say how far segments are listed.
FORMAT_VERSION: Final = 3
ALIGNMENT: Final = 8
FILE_BYTES_MAX: Final = 1 << 32
FRAME_BYTES_MAX: Final = 64 << 20  # A frame is read in one piece.

HEADER_MAGIC: Final = b"offsetdJ"
PREFIX: Final = struct.Struct(">8sII")
HEADER: Final = struct.Struct(">IIIIQ16sQQQ")
FRAME: Final = struct.Struct(">8sIIQQB7x")
COUNT: Final = struct.Struct(">I")
_TOPIC: Final = struct.Struct(">H")
_PARTITION: Final = struct.Struct(">i")
_POINT: Final = struct.Struct(">iBqqqqiq")
_LISTING: Final = struct.Struct(">Iq")
_FLAG_HELD: Final = 1
_FLAG_LISTING: Final = 2  # The fields of `_LISTING` follow. Set in all versions above 2.
_NOT_LISTED: Final = -1
_SEQUENCE_FIELD: Final = 3  # The fourth of a frame's fields of 8 bytes.
_CRC_END: Final = MARK_BYTES + 4  # A frame's CRC covers everything after its own field.

assert PREFIX.size == 16, "the header's prefix is 16 bytes in every version"
assert FRAME.size == 40, "a frame header is 40 bytes"
assert FRAME.size % ALIGNMENT == 0, "the fields of a frame are aligned"


class FrameKind(enum.IntEnum):
    """The kind of a frame."""

    BATCHES = 1
    RECOVERY_POINTS = 2
    CLOSED = 3  # Holds recovery points. As the last frame: the journal was closed clean.
    TURNED = 4  # Empty. Ends a file's turn: the other file has a newer header.


_KINDS: Final = frozenset(int(kind) for kind in FrameKind)


@attrs.frozen(kw_only=True)
class RecoveryPoint:
    """The ends of a partition's durable segments, and of its part of the journal."""

    topic_partition: TopicPartition
    offset: int  # R: everything below is durable in the segments.
    journal_offset_next: int  # The end of all batches appended to the journal so far.
    segment_base_offset: int  # The segment that held R when the point was taken.
    segment_bytes: int  # The position of R in that segment.
    leader_epoch: int  # The epoch of the batches that we append.
    log_start_offset: int = 0  # Batches below it were deleted; segments may still hold some.
    held: bool = False  # It is quarantined: its quarantine file counts, not the journal.
    # The digest of the headers of the segment's batches below R (see `SegmentScan`). None if an
    # older version wrote the point.
    headers_digest: int | None = None
    # Segments that begin below this are listed in `offsetd.segments`, unless they lie below the
    # log's start.
    listed_below: int = 0

    @classmethod
    def of_held(cls, topic_partition: TopicPartition) -> RecoveryPoint:
        """The point of a partition whose share of the journal is in its quarantine file."""
        return cls(
            topic_partition=topic_partition,
            offset=0,
            journal_offset_next=0,
            segment_base_offset=0,
            segment_bytes=0,
            leader_epoch=0,
            held=True,
        )


@attrs.frozen(kw_only=True)
class JournalHeader:
    """The header at the start of a journal file, written when its turn begins."""

    folder_id: bytes
    life: int  # Random, new at every start.
    file_number: int  # Grows by one at every turn, also in a new life.
    first_sequence: int
    file_bytes: int
    frames_start: int
    points: tuple[RecoveryPoint, ...]


@attrs.frozen(kw_only=True)
class Frame:
    """A complete frame with a valid checksum."""

    kind: FrameKind
    life: int
    sequence: int
    position: int
    payload_start: int
    payload_end: int

    @property
    def end(self) -> int:
        """The position at which the next frame starts."""
        return align(self.payload_end)


class LogEnd(NamedTuple):
    """The end of a log."""

    offset_next: int
    segment_base_offset: int  # The base offset of its last segment.
    segment_bytes: int  # The size of that segment.


def align(position: int) -> int:
    """The next position at which a frame may start."""
    return -(-position // ALIGNMENT) * ALIGNMENT


# Recovery points -----------------------------------------------------------------------------


def encode_points(points: Iterable[RecoveryPoint]) -> bytes:
    """Recovery points in the form in which headers and frames hold them."""
    encoded = [_encode_point(point) for point in points]
    return COUNT.pack(len(encoded)) + b"".join(encoded)


def _encode_point(point: RecoveryPoint) -> bytes:
    topic = point.topic_partition.topic.encode()
    # All points have one size, so that a frame of them always fits into the bytes kept for it.
    listing = _LISTING.pack(0, _NOT_LISTED)
    if point.headers_digest is not None:
        listing = _LISTING.pack(point.headers_digest, point.listed_below)
    return b"".join(
        (
            _TOPIC.pack(len(topic)),
            topic,
            _POINT.pack(
                point.topic_partition.partition,
                _FLAG_LISTING | (_FLAG_HELD if point.held else 0),
                point.offset,
                point.journal_offset_next,
                point.segment_base_offset,
                point.segment_bytes,
                point.leader_epoch,
                point.log_start_offset,
            ),
            listing,
        )
    )


def decode_points(content: bytes) -> tuple[RecoveryPoint, ...]:
    """Inverse of `encode_points`. Raises ValueError on other bytes."""
    try:
        return tuple(_decoded_points(content))
    except struct.error as error:
        raise ValueError("the recovery points are cut short") from error


def _decoded_points(content: bytes) -> Iterator[RecoveryPoint]:
    (count,) = COUNT.unpack_from(content)
    position = COUNT.size
    for _ in range(count):
        topic, position = _decode_topic(content, position)
        partition, flags, offset, journal_next, base, size, epoch, log_start = _POINT.unpack_from(
            content, position
        )
        position += _POINT.size
        headers_digest, listed_below = None, 0
        if flags & _FLAG_LISTING:
            digest, below = _LISTING.unpack_from(content, position)
            position += _LISTING.size
            if below != _NOT_LISTED:
                headers_digest, listed_below = digest, below
        yield RecoveryPoint(
            topic_partition=TopicPartition.checked(topic, partition),
            offset=offset,
            journal_offset_next=journal_next,
            segment_base_offset=base,
            segment_bytes=size,
            leader_epoch=epoch,
            log_start_offset=log_start,
            held=bool(flags & _FLAG_HELD),
            headers_digest=headers_digest,
            listed_below=listed_below,
        )


def _decode_topic(content: bytes, position: int) -> tuple[str, int]:
    (size,) = _TOPIC.unpack_from(content, position)
    position += _TOPIC.size
    return content[position : position + size].decode(), position + size


# Batches -------------------------------------------------------------------------------------


@functools.cache
def run_name(topic_partition: TopicPartition) -> bytes:
    """The start of a run's entry in a frame: the name of its log."""
    topic = topic_partition.topic.encode()
    return _TOPIC.pack(len(topic)) + topic + _PARTITION.pack(topic_partition.partition)


def batch_entry_bytes(topic_partition: TopicPartition, batch_bytes: int) -> int:
    """The size of a run's entry in a frame, if its batches have `batch_bytes`."""
    return len(run_name(topic_partition)) + COUNT.size + batch_bytes


def run_pieces(topic_partition: TopicPartition, batches: bytes) -> tuple[bytes, bytes, bytes]:
    """The pieces of a run's entry in a frame, in order."""
    return run_name(topic_partition), COUNT.pack(len(batches)), batches


def encode_batches(runs: Sequence[tuple[TopicPartition, bytes]]) -> bytes:
    """The payload of a BATCHES frame. A run is one batch or several."""
    pieces = [COUNT.pack(len(runs))]
    for topic_partition, batches in runs:
        pieces += run_pieces(topic_partition, batches)
    return b"".join(pieces)


def decode_batches(payload: bytes) -> Iterator[tuple[TopicPartition, bytes]]:
    """The runs of a BATCHES frame. The runs of one partition are in the order of their appends.

    Raises ValueError on other bytes.
    """
    try:
        yield from _decoded_batches(payload)
    except struct.error as error:
        raise ValueError("the batches are cut short") from error


def _decoded_batches(payload: bytes) -> Iterator[tuple[TopicPartition, bytes]]:
    (count,) = COUNT.unpack_from(payload)
    position = COUNT.size
    for _ in range(count):
        topic, position = _decode_topic(payload, position)
        (partition,) = _PARTITION.unpack_from(payload, position)
        (size,) = COUNT.unpack_from(payload, position + _PARTITION.size)
        position += _PARTITION.size + COUNT.size
        batch = payload[position : position + size]
        if len(batch) < size:
            raise ValueError("a batch is cut short")
        yield TopicPartition.checked(topic, partition), batch
        position += size


# Frames --------------------------------------------------------------------------------------


def frame_bytes(payload_bytes: int) -> int:
    """The size of a frame in a file."""
    return align(FRAME.size + payload_bytes)


class FramePayload(NamedTuple):
    """The payload of a frame that is not sealed yet, after space for the header."""

    buffer: npt.NDArray[np.uint8]  # Padded.
    size_bytes: int

    @classmethod
    def of(cls, content: bytes) -> FramePayload:
        """A copy of `content`."""
        buffer = padded_buffer(FRAME.size + len(content))
        buffer.data[FRAME.size : FRAME.size + len(content)] = content
        return cls(buffer, len(content))


def sealed_frame(
    payload: FramePayload, *, mark: bytes, kind: FrameKind, life: int, sequence: int
) -> npt.NDArray[np.uint8]:
    """Fills in the header in the payload's buffer. Returns the frame, with aligned size."""
    buffer, size_bytes = payload
    view, end = buffer.data, FRAME.size + size_bytes
    FRAME.pack_into(view, 0, mark, 0, size_bytes, life, sequence, kind)
    COUNT.pack_into(view, MARK_BYTES, crc32c(buffer, _CRC_END, end))
    padded_end = align(end)
    view[end:padded_end] = bytes(padded_end - end)
    return buffer[:padded_end]


def read_frame(
    buffer: npt.NDArray[np.uint8],
    position: int,
    limit: int,
    *,
    mark: bytes,
    buffer_position: int = 0,
) -> Frame | None:
    """The frame at `position` of a padded buffer; None if no valid frame there ends by `limit`.

    The result's positions count from the start of the file; the buffer starts at `buffer_position`.
    """
    if position + FRAME.size > limit:
        return None
    found, crc, size, life, sequence, kind = FRAME.unpack_from(buffer.data, position)
    end = position + FRAME.size + size
    if found != mark or end > limit:
        return None
    if crc32c(buffer, position + _CRC_END, end) != crc or kind not in _KINDS:
        return None
    return Frame(
        kind=FrameKind(kind),
        life=life,
        sequence=sequence,
        position=buffer_position + position,
        payload_start=buffer_position + position + FRAME.size,
        payload_end=buffer_position + end,
    )


def frame_places(
    buffer: npt.NDArray[np.uint8], start: int, limit: int, *, mark: bytes, sequence_min: int
) -> list[int]:
    """The places at which a frame of sequence `sequence_min` or more may begin.

    The distance from `start` to a place is a multiple of the alignment. Only the mark and the
    sequence are checked. The header of such a frame ends by `limit`.
    """
    words = (limit - start) // ALIGNMENT
    if words < FRAME.size // ALIGNMENT:
        return []
    fields = buffer[start : start + words * ALIGNMENT].view(">u8")
    places = np.flatnonzero(fields == np.uint64(int.from_bytes(mark)))
    places = places[places <= words - FRAME.size // ALIGNMENT]
    sequences = fields[places + _SEQUENCE_FIELD]
    found = places[sequences >= np.uint64(sequence_min)]
    return [start + int(place) * ALIGNMENT for place in found]


# Headers -------------------------------------------------------------------------------------


def header_bytes(points: Iterable[RecoveryPoint]) -> int:
    """The size of a header with these recovery points."""
    return PREFIX.size + HEADER.size + len(encode_points(points))


def encode_header(header: JournalHeader) -> bytes:
    """A header, to be written at a file's start."""
    prefix = HEADER_MAGIC + COUNT.pack(FORMAT_VERSION)
    points = encode_points(header.points)
    size = PREFIX.size + HEADER.size + len(points)
    assert size <= header.frames_start, "the recovery points overflow the header"
    body = b"".join(
        (
            HEADER.pack(
                0,
                size,
                header.frames_start,
                0,
                header.file_bytes,
                header.folder_id,
                header.life,
                header.file_number,
                header.first_sequence,
            )[COUNT.size :],
            points,
        )
    )
    prefix += COUNT.pack(checksum(prefix))
    return prefix + COUNT.pack(checksum(prefix + body)) + body


def decode_header(
    buffer: npt.NDArray[np.uint8], limit: int, name: str = "the journal"
) -> JournalHeader | None:
    """The header of the journal file `name`, whose first `limit` bytes are in a padded buffer.

    Returns None if it is incomplete or its checksum is wrong. Raises NewerFormat, and ValueError if
    a valid header has impossible values.
    """
    if limit < PREFIX.size + HEADER.size:
        return None
    magic, version, prefix_crc = PREFIX.unpack_from(buffer.data)
    if magic != HEADER_MAGIC or crc32c(buffer, 0, PREFIX.size - 4) != prefix_crc:
        return None
    if version > FORMAT_VERSION:
        raise NewerFormat.of(name, version, FORMAT_VERSION)
    crc, size, frames_start, _, file_bytes, folder_id, life, number, first = HEADER.unpack_from(
        buffer.data, PREFIX.size
    )
    if not PREFIX.size + HEADER.size <= size <= min(limit, frames_start):
        return None
    whole = bytes(buffer[:size])
    if checksum(whole[: PREFIX.size] + whole[PREFIX.size + COUNT.size :]) != crc:
        return None
    return JournalHeader(
        folder_id=folder_id,
        life=life,
        file_number=number,
        first_sequence=first,
        file_bytes=file_bytes,
        frames_start=frames_start,
        points=decode_points(whole[PREFIX.size + HEADER.size :]),
    )

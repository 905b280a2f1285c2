"""Quarantine of a damaged partition: the reason, and the file that keeps its part of the journal.

Nothing in a quarantined partition's folder is cut or deleted. The journal's part, the recovery
point and the batches, is copied to `offsetd-quarantine-<topic>-<partition>` before the journal
drops it. So the partition does not block the reuse of the journal, and does not lose its tail.

    magic 8 · version u32 · CRC32C u32 of these 12 bytes
    CRC32C u32 of what follows · flags u8 · recovery points (one) · batches, as in a frame
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.files import replace_file
from offsetd_storage.errors import CorruptBatch, NewerFormat, is_unreadable, words_of
from offsetd_storage.journal.journal_format import (
    COUNT,
    FILE_BYTES_MAX,
    PREFIX,
    RecoveryPoint,
    decode_batches,
    decode_points,
    encode_batches,
    encode_points,
)
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.segment_scan import SegmentScan

# In version 1, recovery points were those of journal versions 1 and 2.
QUARANTINE_FORMAT_VERSION: Final = 2
QUARANTINE_PREFIX: Final = "offsetd-quarantine-"
# The remedy for any damage of a partition in a folder of offsetd.
REPAIR_REMEDY: Final = "restore its files, or keep its valid batches with `offsetd log repair`"
# Starts the new name of a quarantine file that a repair could not read.
UNREADABLE_PREFIX: Final = "damaged-"
_MAGIC: Final = b"offsetdQ"
_BODY: Final = struct.Struct(">IBI")
_FLAG_CLOSED_CLEAN: Final = 1
_BYTES_MAX: Final = 2 * FILE_BYTES_MAX


@attrs.frozen(kw_only=True)
class Damage:
    """The reason for which a partition is quarantined."""

    topic_partition: TopicPartition
    segment_base_offset: int | None  # None if the damage is not in one segment.
    position: int | None  # The byte position in the segment; None for the whole segment.
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        """One line for an operator."""
        remedy = f": {self.remedy}" if self.remedy else ""
        if self.segment_base_offset is None:
            return f"{self.topic_partition}: {self.reason}{remedy}"
        at = "in" if self.position is None else f"at byte {self.position} of"
        where = f"{at} {self.segment_base_offset:020d}.log"
        return f"{self.topic_partition}: {self.reason}, {where}{remedy}"


class DamageFound(Exception):
    """Raised when a partition turns out to be damaged; ends the work on it."""

    def __init__(
        self, reason: str, *, base_offset: int | None = None, position: int | None = 0
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.base_offset = base_offset
        self.position = position

    def of(self, topic_partition: TopicPartition) -> Damage:
        """Returns the damage as that of a partition."""
        return Damage(
            topic_partition=topic_partition,
            segment_base_offset=self.base_offset,
            position=self.position,
            reason=self.reason,
        )


def require_whole(scan: SegmentScan, base_offset: int) -> SegmentScan:
    """Returns the scan of a segment. Raises DamageFound if it stopped at a bad batch."""
    if scan.stop is not None:
        raise DamageFound(
            f"a batch is damaged ({scan.stop.reason.name})",
            base_offset=base_offset,
            position=scan.stop.position,
        )
    return scan


@attrs.frozen(kw_only=True)
class Claim:
    """The required contents of a log, by the journal or by the partition's quarantine file.

    After a crash, the log is durable up to the recovery point, and the batches continue it. After a
    clean close, the log reaches at least up to the recovery point.
    """

    point: RecoveryPoint
    batches: tuple[bytes, ...]
    closed_clean: bool
    is_aside: bool = False  # True if it comes from a quarantine file.

    @property
    def holds_commits(self) -> bool:
        """Returns whether it has acknowledged batches that may exist nowhere else."""
        return any(batch_header(each).last_offset >= self.point.offset for each in self.batches)


class QuarantineDamaged(ValueError):
    """A quarantine file that is damaged."""


def quarantine_path(folder: Path, topic_partition: TopicPartition) -> Path:
    """The path of a partition's quarantine file."""
    return folder / f"{QUARANTINE_PREFIX}{topic_partition.folder_name}"


def list_quarantine_files(files: Files, folder: Path) -> list[TopicPartition]:
    """The partitions that have a quarantine file."""
    found = (
        TopicPartition.of_folder(name.removeprefix(QUARANTINE_PREFIX))
        for name in files.list_folder(folder)
        if name.startswith(QUARANTINE_PREFIX)
    )
    return sorted(topic_partition for topic_partition in found if topic_partition is not None)


def write_quarantine_file(files: Files, folder: Path, claim: Claim) -> None:
    """Writes a claim of the journal to a quarantine file, durably."""
    topic_partition = claim.point.topic_partition
    points = encode_points([claim.point])
    batches = encode_batches([(topic_partition, batch) for batch in claim.batches])
    flags = _FLAG_CLOSED_CLEAN if claim.closed_clean else 0
    body = _BODY.pack(0, flags, len(points))[COUNT.size :] + points + batches
    prefix = _MAGIC + COUNT.pack(QUARANTINE_FORMAT_VERSION)
    content = (prefix, COUNT.pack(checksum(prefix)), COUNT.pack(checksum(body)), body)
    replace_file(files, quarantine_path(folder, topic_partition), b"".join(content))


def read_quarantine_file(files: Files, folder: Path, topic_partition: TopicPartition) -> Claim:
    """The claim in a quarantine file. Raises QuarantineDamaged, NewerFormat, OSError."""
    path = quarantine_path(folder, topic_partition)
    if files.size(path) > _BYTES_MAX:
        raise QuarantineDamaged(f"{path.name} is larger than any journal")
    content = files.read_bytes(path)
    if len(content) < PREFIX.size + _BODY.size:
        raise QuarantineDamaged(f"{path.name} is too short")
    magic, version, prefix_crc = PREFIX.unpack_from(content)
    if magic != _MAGIC or checksum(content[: PREFIX.size - COUNT.size]) != prefix_crc:
        raise QuarantineDamaged(f"{path.name} has a wrong header")
    if version > QUARANTINE_FORMAT_VERSION:
        raise NewerFormat.of(path, version, QUARANTINE_FORMAT_VERSION)
    crc, flags, points_bytes = _BODY.unpack_from(content, PREFIX.size)
    if checksum(content[PREFIX.size + COUNT.size :]) != crc:
        raise QuarantineDamaged(f"{path.name} has a wrong checksum")
    points_start = PREFIX.size + _BODY.size
    try:
        (point,) = decode_points(content[points_start:])
        batches = tuple(
            batch for _, batch in decode_batches(content[points_start + points_bytes :])
        )
        for batch in batches:
            batch_header(batch)
    except (ValueError, CorruptBatch) as error:
        raise QuarantineDamaged(f"{path.name} has impossible contents: {error}") from error
    if point.topic_partition != topic_partition:
        raise QuarantineDamaged(f"{path.name} is about {point.topic_partition}")
    return Claim(point=point, batches=batches, closed_clean=bool(flags & _FLAG_CLOSED_CLEAN))


def claims_of(
    files: Files, folder: Path, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Claim | Damage]:
    """The claims in these partitions' quarantine files, or Damage for an unreadable file."""
    claims: dict[TopicPartition, Claim | Damage] = {}
    for topic_partition in partitions:
        try:
            claim = read_quarantine_file(files, folder, topic_partition)
            claims[topic_partition] = attrs.evolve(claim, is_aside=True)
        except (QuarantineDamaged, OSError) as error:
            if isinstance(error, OSError) and not (
                isinstance(error, FileNotFoundError) or is_unreadable(error)
            ):
                raise
            reason = f"its share of the journal cannot be read: {words_of(error)}"
            claims[topic_partition] = DamageFound(reason).of(topic_partition)
    return claims

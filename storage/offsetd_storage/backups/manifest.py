"""The manifest of a backup: which logs it has, up to where, in which chunks.

`docs/formats/backup.md` describes the file. A chunk is `CHUNK_BYTES` of a segment's file, or what
is left at its end, so a segment that has grown shares its first chunks with its earlier backups.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from offsetd_storage.backups.backup_errors import BackupDamaged, BackupRefused
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.errors import NewerFormat
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FORMAT_VERSION: Final = 1
CHUNK_BYTES: Final = 1 << 20
DIGEST_BYTES: Final = 32
_ID: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{8}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_OFFSET_MAX: Final = 2**63 - 1


def digest_of(content: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def chunk_sizes(size_bytes: int) -> Iterator[int]:
    """The sizes of the chunks of a segment, in bytes."""
    for start in range(0, size_bytes, CHUNK_BYTES):
        yield min(CHUNK_BYTES, size_bytes - start)


@attrs.frozen(kw_only=True)
class SegmentEntry:
    """A segment, or the part of it that a backup has. `digests` are those of its chunks."""

    base_offset: int
    size_bytes: int
    digests: tuple[str, ...] = ()

    @property
    def chunk_count(self) -> int:
        """The number of its chunks."""
        return -(-self.size_bytes // CHUNK_BYTES)


@attrs.frozen(kw_only=True)
class LogEntry:
    """One log: its records from `start_offset` up to `end_offset` (exclusive).

    `exact_from`: each record that was cleaned away has a later record of its key below this offset.
    """

    topic_partition: TopicPartition
    start_offset: int
    end_offset: int
    exact_from: int
    segments: tuple[SegmentEntry, ...]

    @property
    def size_bytes(self) -> int:
        """The size of all its segments."""
        return sum(each.size_bytes for each in self.segments)


@attrs.frozen(kw_only=True)
class Manifest:
    """The contents of a backup: all logs as they were durable at `moment_ms`, the server's time.

    A head is a manifest whose segments have no digests yet.
    """

    moment_ms: int
    server_version: str = ""
    folder_id: str
    offsets_partitions: int
    is_from_elsewhere: bool
    cluster_id: str = ""
    logs: tuple[LogEntry, ...]

    @property
    def size_bytes(self) -> int:
        """The size of all segments, in bytes."""
        return sum(each.size_bytes for each in self.logs)

    @property
    def digests(self) -> frozenset[str]:
        """The digests of all chunks."""
        segments = chain.from_iterable(each.segments for each in self.logs)
        return frozenset(chain.from_iterable(each.digests for each in segments))

    def lacking(self, there: Mapping[str, int]) -> str | None:
        """The problem of the first chunk that is not `there` (sizes by digest); None if all are.

        Only the chunks' bytes show other damage.
        """
        for log in self.logs:
            for segment in log.segments:
                for digest, size in zip(
                    segment.digests, chunk_sizes(segment.size_bytes), strict=True
                ):
                    if there.get(digest) != size:
                        what = "is missing" if digest not in there else f"has not {size} bytes"
                        return f"{log.topic_partition}: chunk {digest} {what}"
        return None

    @property
    def missing_partitions(self) -> list[int]:
        """The partitions of `__consumer_offsets` that it does not have."""
        there = {
            each.topic_partition.partition
            for each in self.logs
            if each.topic_partition.topic == OFFSETS_TOPIC
        }
        return sorted(set(range(self.offsets_partitions)) - there)

    def encode(self) -> bytes:
        """The file: JSON on one line, and on the next the SHA-256 of that line."""
        document = {
            "format": FORMAT_VERSION,
            "moment_ms": self.moment_ms,
            "server_version": self.server_version,
            "folder_id": self.folder_id,
            "offsets_partitions": self.offsets_partitions,
            "is_from_elsewhere": self.is_from_elsewhere,
            "cluster_id": self.cluster_id,
            "chunk_bytes": CHUNK_BYTES,
            "logs": [_log_document(each) for each in self.logs],
        }
        body = json.dumps(document, separators=(",", ":")).encode() + b"\n"
        return body + digest_of(body).encode() + b"\n"

    @classmethod
    def decode(cls, content: bytes, name: str) -> Self:
        """Reads a file. Raises BackupDamaged, and NewerFormat."""
        body, _, last = content.removesuffix(b"\n").rpartition(b"\n")
        if not content.endswith(b"\n") or last != digest_of(body + b"\n").encode():
            raise BackupDamaged(f"{name}: its checksum is wrong")
        try:
            return cls._read(json.loads(body), name)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BackupDamaged(f"{name}: not a manifest: {error!r}") from error

    @classmethod
    def _read(cls, document: Any, name: str) -> Self:
        if _number(document["format"]) > FORMAT_VERSION:
            raise NewerFormat(
                f"{name} is of a newer version of offsetd (format {document['format']}, and this"
                f" version knows {FORMAT_VERSION}): upgrade offsetd to use this backup"
            )
        if document["chunk_bytes"] != CHUNK_BYTES:
            raise ValueError(f"chunks of {document['chunk_bytes']} bytes")
        return cls(
            moment_ms=_number(document["moment_ms"]),
            server_version=document["server_version"],
            folder_id=document["folder_id"],
            offsets_partitions=_number(document["offsets_partitions"]),
            is_from_elsewhere=bool(document["is_from_elsewhere"]),
            cluster_id=document["cluster_id"],
            logs=tuple(_log_of(each) for each in document["logs"]),
        )


def _log_document(log: LogEntry) -> dict[str, Any]:
    return {
        "topic": log.topic_partition.topic,
        "partition": log.topic_partition.partition,
        "start_offset": log.start_offset,
        "end_offset": log.end_offset,
        "exact_from": log.exact_from,
        "segments": [
            {
                "base_offset": each.base_offset,
                "size_bytes": each.size_bytes,
                "sha256": list(each.digests),
            }
            for each in log.segments
        ],
    }


def _log_of(document: Any) -> LogEntry:
    log = LogEntry(
        topic_partition=TopicPartition.checked(document["topic"], _number(document["partition"])),
        start_offset=_number(document["start_offset"]),
        end_offset=_number(document["end_offset"]),
        exact_from=_number(document["exact_from"]),
        segments=tuple(_segment_of(each) for each in document["segments"]),
    )
    bases = [each.base_offset for each in log.segments]
    if any(after <= before for before, after in pairwise([*bases, log.end_offset])):
        raise ValueError(f"segments of {log.topic_partition} are not in order")
    return log


def _segment_of(document: Any) -> SegmentEntry:
    segment = SegmentEntry(
        base_offset=_number(document["base_offset"]),
        size_bytes=_number(document["size_bytes"]),
        digests=tuple(document["sha256"]),
    )
    if len(segment.digests) != segment.chunk_count:
        raise ValueError("a segment has not as many chunks as its size needs")
    if not all(_DIGEST.fullmatch(each) for each in segment.digests):
        raise ValueError("a digest is not one of SHA-256")
    return segment


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _OFFSET_MAX:
        raise ValueError(f"{value!r} is not a number")
    return value


def backup_id(moment_ms: int, suffix: str) -> str:
    """The id of a backup: its moment, and 8 random hexadecimal digits."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{moment_ms % 1000:03}Z-{suffix}"


def checked_id(text: str) -> str:
    """An id that a user gave. Raises BackupRefused."""
    if not _ID.fullmatch(text):
        raise BackupRefused(
            f"{text} is not the id of a backup: one is like 20261128T101500.000Z-0a1b2c3d"
        )
    return text


def is_backup_id(text: str) -> bool:
    """Whether a text has the form of an id."""
    return _ID.fullmatch(text) is not None

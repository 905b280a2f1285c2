"""The check of a backup: every byte of it against its checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from offsetd_storage.backups.backup_errors import BackupDamaged
from offsetd_storage.backups.manifest import chunk_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetd_storage.backups.manifest import LogEntry, Manifest, SegmentEntry
    from offsetd_storage.backups.repository import Repository


class ChunkProblem(NamedTuple):
    """A chunk that is missing or damaged, and a log that needs it."""

    log: str
    problem: str


def segment_chunks(repository: Repository, log: LogEntry, segment: SegmentEntry) -> Iterator[bytes]:
    """The checked chunks of a segment. Raises BackupDamaged, TargetFailed."""
    for digest, size in zip(segment.digests, chunk_sizes(segment.size_bytes), strict=True):
        content = repository.chunk(digest)
        if len(content) != size:
            raise BackupDamaged(
                f"{log.topic_partition}: chunk {digest} has {len(content)} bytes, not {size}"
            )
        yield content


def chunk_problems(
    repository: Repository,
    manifest: Manifest,
    *,
    checked: set[str],
    on_bytes: Callable[[int], object] = lambda _: None,
) -> Iterator[ChunkProblem]:
    """The problems of a backup's chunks. Each chunk is read once: those in `checked` are skipped.

    Raises TargetFailed.
    """
    done_bytes = 0
    for log in manifest.logs:
        for segment in log.segments:
            for digest, size in zip(segment.digests, chunk_sizes(segment.size_bytes), strict=True):
                done_bytes += size
                if digest in checked:
                    continue
                checked.add(digest)
                try:
                    if len(repository.chunk(digest)) != size:
                        yield ChunkProblem(str(log.topic_partition), f"{digest} is of another size")
                except BackupDamaged as error:
                    yield ChunkProblem(str(log.topic_partition), str(error))
                on_bytes(done_bytes)

"""Writing a backup: chunks that the target lacks, and at last the manifest."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from offsetd_storage.backups.backup_errors import BackupBlocked, BackupDamaged, TargetFailed
from offsetd_storage.backups.manifest import backup_id, chunk_sizes, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from random import Random

    from offsetd_storage.backups.chunk_reading import Chunk
    from offsetd_storage.backups.manifest import LogEntry, Manifest, SegmentEntry
    from offsetd_storage.backups.repository import Repository

_SETTLED_CHUNKS: Final = 64
"""The number of chunks that are made durable together. An interrupted backup loses no more."""


class WrittenBackup(NamedTuple):
    """A new backup. `new_bytes` is what its chunks take in addition to those that were there."""

    backup_id: str
    manifest: Manifest
    new_bytes: int
    new_chunks: int


def write_backup(
    repository: Repository,
    head: Manifest,
    chunks: Iterator[Chunk],
    *,
    held: Mapping[str, int],
    random: Random,
    now_ms: int,
    on_bytes: Callable[[int], object] = lambda _: None,
) -> WrittenBackup:
    """Writes the logs of `head`, whose chunks come in their order, as a new backup.

    `held` are the chunks that the target had before, with their sizes; the sender leaves them out.
    If this fails, there is no new backup; its chunks serve the next one. Raises BackupDamaged if
    what comes does not fit, BackupBlocked, TargetFailed, and what `chunks` raises.
    """
    writer = _Writer(repository, chunks, dict(held), on_bytes)
    try:
        repository.begin_backup(head.folder_id, now_ms=now_ms)
        _check_held(repository, held)
        logs = tuple(writer.log(each) for each in head.logs)
        if next(chunks, None) is not None:
            raise BackupDamaged("more chunks came than the segments have")
        manifest = attrs.evolve(head, logs=logs)
        name = backup_id(head.moment_ms, random.randbytes(4).hex())
        repository.check_backup(head.folder_id, begun_ms=now_ms)
        repository.put_manifest(name, manifest)
    finally:
        with suppress(TargetFailed):
            repository.end_backup(head.folder_id, begun_ms=now_ms)
    return WrittenBackup(name, manifest, writer.new_bytes, writer.new_chunks)


def _check_held(repository: Repository, held: Mapping[str, int]) -> None:
    """Raises BackupBlocked if a prune has removed chunks since `held` was listed.

    The mark of the backup is there now, so no prune removes any more.
    """
    if held and held.keys() - repository.chunks().keys():
        raise BackupBlocked(
            f"{repository.target.address} was pruned while the backup began: make it again"
        )


@attrs.define
class _Writer:
    _repository: Repository
    _chunks: Iterator[Chunk]
    _held: dict[str, int]
    _on_bytes: Callable[[int], object]
    new_bytes: int = 0
    new_chunks: int = 0
    _done_bytes: int = 0

    def log(self, log: LogEntry) -> LogEntry:
        return attrs.evolve(log, segments=tuple(map(self._segment, log.segments)))

    def _segment(self, segment: SegmentEntry) -> SegmentEntry:
        digests = tuple(self._chunk(size) for size in chunk_sizes(segment.size_bytes))
        return attrs.evolve(segment, digests=digests)

    def _chunk(self, size: int) -> str:
        chunk = next(self._chunks, None)
        if chunk is None:
            raise BackupDamaged("fewer chunks came than the segments have")
        digest, content = chunk.digest, chunk.content
        if content is not None:
            if len(content) != size or digest_of(content) != digest:
                raise BackupDamaged("a chunk came that differs from its checksum")
            if self._held.get(digest) != size:
                self._repository.put_chunk(digest, content)
                if self.new_chunks % _SETTLED_CHUNKS == _SETTLED_CHUNKS - 1:
                    self._repository.target.settle()
                self._held[digest] = size
                self.new_bytes += size
                self.new_chunks += 1
        elif self._held.get(digest) != size:
            raise BackupDamaged("a chunk was left out that the target does not have")
        self._done_bytes += size
        self._on_bytes(self._done_bytes)
        return digest

"""The logs of a backup become the logs of a new folder, which continue far above the backup's end.

A log offset is the epoch of a lease and the revision of a commit. The server from which the backup
came went on after it, and gave out offsets that the backup does not know. So each restored log
continues at an offset that no server can have reached by now, by the time that has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.backups.backup_check import segment_chunks
from offsetd_storage.backups.backup_errors import BackupDamaged, BackupRefused
from offsetd_storage.folder.checkpoint_files import write_offset_checkpoint
from offsetd_storage.folder.folder_format import new_properties, write_properties
from offsetd_storage.log.kafka_checkpoints import LOG_START_CHECKPOINT
from offsetd_storage.log.segment_files import segment_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from random import Random

    from offsetd_storage.backups.manifest import LogEntry, Manifest, SegmentEntry
    from offsetd_storage.backups.point_in_time import Cut
    from offsetd_storage.backups.repository import Repository
    from offsetd_storage.disk.files import Files
    from offsetd_storage.topic_partition import TopicPartition

OFFSETS_PER_MS_MAX: Final = 10_000
"""More than any server can give out in one log partition in a millisecond."""
CLOCK_SLACK_MS: Final = 3_600_000
"""By how much the clocks of two machines may differ."""


def offset_after_restore(end_offset: int, *, moment_ms: int, now_ms: int) -> int:
    """The offset at which a log continues that ended at `end_offset` at `moment_ms`.

    It is above everything that a server has given out until `now_ms`: the one from which the backup
    came, and every folder that was restored from the same backup before. Raises BackupRefused if
    the clock is before the backup.
    """
    if now_ms < moment_ms:
        raise BackupRefused(
            f"the clock of this machine is {moment_ms - now_ms} ms before the moment of the backup:"
            " set it first, because the log offsets of the new folder follow from it"
        )
    return end_offset + (now_ms - moment_ms + CLOCK_SLACK_MS) * OFFSETS_PER_MS_MAX


def check_chunks_there(repository: Repository, manifest: Manifest) -> None:
    """Raises BackupDamaged if a chunk is missing, or has another size. Reads only the list."""
    if (problem := manifest.lacking(repository.chunks())) is not None:
        raise BackupDamaged(problem)


@attrs.define(kw_only=True)
class LogRestoring:
    """Fills a folder that `begin_restore` has marked. Raises what its parts raise, and OSError.

    `cuts` ends logs early, for a point in time.
    """

    repository: Repository
    manifest: Manifest
    files: Files
    folder: Path
    now_ms: int
    cuts: Mapping[TopicPartition, Cut] = attrs.field(factory=dict)
    on_bytes: Callable[[int], object] = lambda _: None
    _done_bytes: int = 0

    def restore(self, random: Random) -> None:
        """Writes all logs, and the properties of a new folder. Everything is durable afterwards."""
        manifest, files, folder = self.manifest, self.files, self.folder
        for log in manifest.logs:
            self._restore_log(log)
        starts = {
            each.topic_partition: each.start_offset for each in manifest.logs if each.start_offset
        }
        write_offset_checkpoint(files, folder / LOG_START_CHECKPOINT, starts)
        properties = new_properties(
            manifest.offsets_partitions, random, is_from_elsewhere=manifest.is_from_elsewhere
        )
        write_properties(files, folder, properties)
        files.sync_folder(folder)

    def _restore_log(self, log: LogEntry) -> None:
        folder = self.folder / log.topic_partition.folder_name
        if not self.files.exists(folder):
            self.files.make_folder(folder)
        cut = self.cuts.get(log.topic_partition)
        for segment in log.segments:
            if cut is not None and segment.base_offset >= cut.offset:
                break
            is_cut = cut is not None and segment.base_offset == cut.segment_base_offset
            size = cut.position if cut is not None and is_cut else segment.size_bytes
            self._restore_segment(folder, log, segment, size)
        next_offset = offset_after_restore(
            log.end_offset, moment_ms=self.manifest.moment_ms, now_ms=self.now_ms
        )
        # An empty segment says where the log continues; its offsets would not fit the one before.
        self._write_file(segment_path(folder, next_offset), ())
        self.files.sync_folder(folder)

    def _restore_segment(
        self, folder: Path, log: LogEntry, segment: SegmentEntry, size_bytes: int
    ) -> None:
        def counted() -> Iterator[bytes]:
            left = size_bytes
            for content in segment_chunks(self.repository, log, segment):
                yield content[:left]
                left -= min(left, len(content))
                self._done_bytes += len(content)
                self.on_bytes(self._done_bytes)
                if not left:
                    return

        self._write_file(segment_path(folder, segment.base_offset), counted())

    def _write_file(self, path: Path, chunks: Iterable[bytes]) -> None:
        file = self.files.open(path, create=True)
        try:
            position = 0
            for content in chunks:
                file.pwrite([content], position)
                position += len(content)
            file.sync()
        finally:
            file.close()

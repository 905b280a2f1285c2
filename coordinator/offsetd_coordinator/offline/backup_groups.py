"""The offsets of groups in a backup, read without a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.backups.backup_check import segment_chunks
from offsetd_storage.kernels import padded_copy

from offsetd_coordinator.offline.copied_offsets import groups_of, new_state
from offsetd_coordinator.offline.folder_restore import logs_of_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsetd_storage.backups.manifest import LogEntry
    from offsetd_storage.backups.repository import Repository

    from offsetd_coordinator.offline.copied_offsets import FolderGroup
    from offsetd_coordinator.offline.folder_restore import ChosenBackup
    from offsetd_coordinator.state.replayed_state import ReplayedState


def groups_in_backup(
    repository: Repository, chosen: ChosenBackup, group_ids: Sequence[str]
) -> Iterator[FolderGroup]:
    """Yields the groups that have offsets there. Raises BackupDamaged, CorruptBatch, TargetFailed.

    Reads only the logs of these groups.
    """
    wanted = frozenset(group_ids)
    for log in logs_of_groups(chosen.manifest, wanted).logs:
        state = _replayed(repository, chosen, log)
        found = groups_of(log.topic_partition, state, ())
        yield from (each for each in found if each.group_id in wanted)


def _replayed(repository: Repository, chosen: ChosenBackup, log: LogEntry) -> ReplayedState:
    state = new_state()
    cut = chosen.cuts.get(log.topic_partition)
    for segment in log.segments:
        if cut is not None and segment.base_offset >= cut.offset:
            break
        content = b"".join(segment_chunks(repository, log, segment))
        if cut is not None and segment.base_offset == cut.segment_base_offset:
            content = content[: cut.position]
        state.replay(padded_copy(content), 0, len(content))
    return state

"""The offsets of groups in a backup, read without a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.backups.backup_check import segment_chunks
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.kernels import padded_copy
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.offline.copied_offsets import groups_of, new_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    for partition in sorted(
        {partition_of(each, chosen.manifest.offsets_partitions) for each in wanted}
    ):
        log = TopicPartition(OFFSETS_TOPIC, partition)
        state = _replayed(repository, chosen, log)
        yield from (each for each in groups_of(log, state, ()) if each.group_id in wanted)


def _replayed(
    repository: Repository, chosen: ChosenBackup, topic_partition: TopicPartition
) -> ReplayedState:
    state = new_state()
    cut = chosen.cuts.get(topic_partition)
    for log in chosen.manifest.logs:
        if log.topic_partition != topic_partition:
            continue
        for segment in log.segments:
            if cut is not None and segment.base_offset >= cut.offset:
                break
            content = b"".join(segment_chunks(repository, log, segment))
            if cut is not None and segment.base_offset == cut.segment_base_offset:
                content = content[: cut.position]
            state.replay(padded_copy(content), 0, len(content))
    return state

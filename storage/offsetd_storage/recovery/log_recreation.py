"""Logs that are recreated empty, because their folders were removed while no process had them open.

With Kafka an operator drops a topic's records by deleting the topic and creating it again. With
offsetd: stop the server, remove the topic's folders, start the server. This does not work for
`__consumer_offsets`, nor for a topic that is not `is_removable`. It also does not work if the
journal was not closed: then a missing folder may mean that the disk lost it. Such a partition is
quarantined until its folder is back, or until an operator asks to recreate it
(`LogStore.open(recreated=...)`).

The new log begins at the offset at which the old one ended. So an old offset never names a new
record. After a crash in between, the log still ends at the offset in the journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.log.segment_files import segment_base_offsets
from offsetd_storage.recovery.partition_plan import PartitionPlan
from offsetd_storage.recovery.quarantine import Claim
from offsetd_storage.recovery.swap_recovery import plan_swaps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.kafka_checkpoints import KafkaCheckpoints
    from offsetd_storage.recovery.quarantine import Damage
    from offsetd_storage.recovery.recovery_request import RecoveryRequest
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class BegunAnew:
    """The logs that are recreated, with the first offset of each."""

    offsets: Mapping[TopicPartition, int]
    warnings: tuple[str, ...]

    def keep(
        self, claims: Mapping[TopicPartition, Claim | Damage]
    ) -> dict[TopicPartition, Claim | Damage]:
        """The claims without those of recreated logs."""
        return {each: claim for each, claim in claims.items() if each not in self.offsets}


def find_begun_anew(
    folder: RecoveryRequest,
    claims: Mapping[TopicPartition, Claim | Damage],
    checkpoints: KafkaCheckpoints,
) -> BegunAnew:
    """The logs to recreate: logs that the operator named, and logs whose folders were removed."""
    offsets: dict[TopicPartition, int] = {}
    warnings: list[str] = []
    for each in sorted(folder.recreated):
        known = checkpoints.recovery_points.get(each, 0)
        offsets[each] = max(known, _end(claims.get(each)), _last_base(folder, each))
        warnings.append(
            f"{each} is recreated, empty, at offset {offsets[each]}, as it was asked to"
        )
    for each, claim in claims.items():
        if each not in offsets and _was_removed(folder, each, claim):
            offsets[each] = _end(claim)
            warnings.append(
                f"{each} was removed while no process had the folder open: it is recreated,"
                f" empty, at offset {offsets[each]}, where it ended"
            )
    return BegunAnew(offsets=offsets, warnings=tuple(warnings))


def _was_removed(
    folder: RecoveryRequest, topic_partition: TopicPartition, claim: Claim | Damage
) -> bool:
    return (
        isinstance(claim, Claim)
        and claim.closed_clean
        and not claim.is_aside
        and claim.point.offset > 0
        and (folder.config.is_removable(topic_partition.topic) or _was_empty(claim))
        and not _bases(folder, topic_partition)
    )


def _was_empty(claim: Claim) -> bool:
    """Returns whether the log had no records, so that none can be lost with its folder."""
    return claim.point.log_start_offset >= claim.point.offset


def _end(claim: Claim | Damage | None) -> int:
    """The end of a log by its claim, or 0 without a claim."""
    if not isinstance(claim, Claim):
        return 0
    ends = [batch_header(each).last_offset + 1 for each in claim.batches]
    return max([claim.point.offset, claim.point.journal_offset_next, *ends])


def _bases(folder: RecoveryRequest, topic_partition: TopicPartition) -> list[int]:
    path = folder.path / topic_partition.folder_name
    if not folder.files.exists(path):
        return []
    found = {*segment_base_offsets(folder.files, path)}
    return sorted(found | {*plan_swaps(folder.files, path).log_names})


def _last_base(folder: RecoveryRequest, topic_partition: TopicPartition) -> int:
    return max(_bases(folder, topic_partition), default=0)


def plan_anew(
    files: Files, folder: Path, topic_partition: TopicPartition, offset: int
) -> PartitionPlan:
    """The plan that removes all segments of a partition and begins its log at `offset`."""
    swap_plan = plan_swaps(files, folder / topic_partition.folder_name)
    return PartitionPlan(
        topic_partition=topic_partition,
        swap_plan=swap_plan,
        scans={},
        dropped=sorted(swap_plan.log_names),
        offset_next=offset,
        batches=(),
        bytes_cut=0,
        bytes_scanned=0,
        point=None,
    )

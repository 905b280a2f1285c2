"""The folder of a recovery, and the operator's requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.store_config import LogStoreConfig
    from offsetd_storage.recovery.repair_plan import Repair
    from offsetd_storage.topic_partition import TopicPartition


class RepairWitness(Protocol):
    """Is told of each repair, one partition after the other."""

    def begins(self, files: Files, repair: Repair) -> None:
        """Called before anything of the partition is rewritten. Raises OSError: then it is not."""

    def is_done(self, repair: Repair) -> None:
        """Called when the partition's log is repaired, durably."""


@attrs.frozen(kw_only=True)
class RecoveryRequest:
    """The folder, its settings, and the operator's requests. Every step of a recovery needs them.

    `recreated` has the partitions whose logs are recreated empty. `repaired` has the damaged
    partitions whose valid batches are kept, and `witness` is told of their repairs.
    """

    files: Files
    path: Path
    config: LogStoreConfig
    clock: Clock
    random: Random
    recreated: frozenset[TopicPartition] = frozenset()
    repaired: frozenset[TopicPartition] = frozenset()
    witness: RepairWitness | None = None

"""The folder of a recovery, and the operator's requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.store_config import LogStoreConfig
    from offsetd_storage.topic_partition import TopicPartition


@attrs.frozen(kw_only=True)
class RecoveryRequest:
    """The folder, its settings, and the operator's requests. Every step of a recovery needs them.

    `begin_anew` has the partitions whose logs are recreated empty. `repaired` has the damaged
    partitions whose valid batches are kept.
    """

    files: Files
    path: Path
    config: LogStoreConfig
    clock: Clock
    random: Random
    begin_anew: frozenset[TopicPartition] = frozenset()
    repaired: frozenset[TopicPartition] = frozenset()

"""The engine: the logs of a data folder behind one journal, and one fsync for all who wait.

`append` orders a batch into its partition's log, `flush` makes everything appended so far durable
with one fdatasync of the journal, `advance_recovery_points` now and then makes the segments
durable too, so that the journal can be reused. What holds after a crash is written in
`docs/formats/journal.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offsetd_storage.log_config import LogConfig

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from offsetd_storage.clock import Clock
    from offsetd_storage.errors import StorageFailed
    from offsetd_storage.files import Files
    from offsetd_storage.partition_log import PartitionLog
    from offsetd_storage.quarantine import Damage
    from offsetd_storage.recovery import RecoveryProgress, RecoveryReport
    from offsetd_storage.topic_partition import TopicPartition

OFFSETS_TOPIC = "__consumer_offsets"


@attrs.frozen(kw_only=True)
class TopicSpec:
    """A topic of the engine's own: how many partitions it has, and how its logs behave."""

    topic: str
    partitions: int
    log: LogConfig


@attrs.frozen(kw_only=True)
class LogStoreConfig:
    """Settings of a data folder. Sizes are in bytes."""

    partitions: int | None = None  # Of `__consumer_offsets`; None: what the folder says, else 50.
    log: LogConfig = LogConfig()  # Of `__consumer_offsets`.
    other_topics: tuple[TopicSpec, ...] = ()
    journal_file_bytes: int = 32 << 20  # Two such files are made.
    journal_header_bytes: int = 64 << 10
    frame_bytes_max: int = 4 << 20
    recovery_threads: int = 2


class LogStore:
    """The logs of one data folder, which is locked for as long as the store is open.

    Threads: `append` from one writer thread; `flush` from any one, `advance_recovery_points` from
    any one, at the same time. After the first failure of the disk nothing is acknowledged any
    more: every call raises StorageFailed, and the process has to exit.
    """

    logs: dict[TopicPartition, PartitionLog]
    quarantined: dict[TopicPartition, Damage]
    report: RecoveryReport
    folder_id: str
    partitions: int
    failed: StorageFailed | None

    @classmethod
    def open(
        cls,
        files: Files,
        folder: Path,
        config: LogStoreConfig,
        *,
        clock: Clock,
        random: random.Random,
        on_progress: Callable[[RecoveryProgress], None] | None = None,
    ) -> LogStore:
        """Locks and recovers the folder, made where missing, and starts a new life of its journal.

        Raises FolderLocked, NewerFormat, ForeignWriter, FolderMismatch, JournalDamaged (all with
        nothing changed), StorageFull, StorageFailed.
        """
        raise NotImplementedError

    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        last_offset: int,
        max_timestamp_ms: int,
    ) -> None:
        """Puts one record batch at the end of a log; it is durable once a later `flush` returns.

        Raises PartitionQuarantined, RecordTooLarge, StorageFull (nothing was changed), or
        StorageFailed.
        """
        raise NotImplementedError

    def flush(self) -> None:
        """Returns when everything appended before the call is on stable storage.

        Raises StorageFailed; a failed flush is never tried again.
        """
        raise NotImplementedError

    def has_pending(self) -> bool:
        """Whether something was appended that no flush has taken yet."""
        raise NotImplementedError

    def advance_recovery_points(self) -> None:
        """Makes the segments durable up to what the journal holds, and says so in the journal.

        Raises StorageFailed.
        """
        raise NotImplementedError

    @property
    def journal_used_ratio(self) -> float:
        """How much of the current journal file is used, 0 to 1: advance when above one half."""
        raise NotImplementedError

    def close(self) -> None:
        """Flushes, syncs, ends the journal's life cleanly, unlocks. After a failure: unlocks."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Drops everything without a write, as a crash would; for tests."""
        raise NotImplementedError

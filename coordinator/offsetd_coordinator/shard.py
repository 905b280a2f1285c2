"""One partition of the offsets topic as a pure state: it decides, and it replays.

`decide` changes nothing and yields a record batch; replaying that batch is the only change, by
the same code at run time as at load, so that live state equals a replay of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from offsetd_coordinator.groups import Group, GroupListing
    from offsetd_coordinator.requests import CommittedOffset, Decision, Request


@attrs.frozen(kw_only=True)
class ShardConfig:
    """What a shard needs of the settings."""

    partitions: int = 50
    """How many partitions the offsets topic has; places groups."""
    offset_commit_value_version: int = 4
    message_bytes_max: int = 1_048_588
    request_id_window_ms: int = 60_000
    request_ids_per_partition_max: int = 262_144
    """How many request ids are remembered at most (40 bytes each); the oldest go first."""


@attrs.frozen(kw_only=True)
class ShardCounters:
    """What a shard holds, and what it met in its log that it could not use."""

    offset_count: int
    group_count: int
    pending_offset_count: int
    unknown_records: int
    undecodable_records: int
    table_bytes: int


class Shard:
    """The groups and offsets of one partition. Used by one thread at a time.

    `offset_next` is the log offset of the next record, `leader_epoch` what new batches carry.
    """

    def __init__(self, partition: int, config: ShardConfig) -> None:
        self.partition = partition
        self.config = config
        self.offset_next = 0
        self.leader_epoch = 0

    def decide(self, request: Request, now_ms: int) -> Decision:
        """What to write and what to answer. Changes nothing, raises nothing for bad luck."""
        raise NotImplementedError

    def apply(self, decision: Decision) -> None:
        """Replays the decision's batch, once it is appended, and notes reported end offsets."""
        raise NotImplementedError

    def replay(self, buffer: npt.NDArray[np.uint8], start: int, end: int) -> None:
        """Replays the whole, checked batches of `buffer[start:end]`; 16 bytes of padding follow.

        Bytes that cannot be understood are counted and kept; this never fails for them.
        """
        raise NotImplementedError

    def fetch(
        self,
        group_id: bytes,
        partitions: Sequence[tuple[bytes, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> list[CommittedOffset]:
        """Committed offsets, sorted by topic and partition; None asks for all. Absent is absent.

        Raises:
            UnstableOffsetCommit: `require_stable`, and a transaction is open on what is asked.
            RecordUndecodable: a record that is asked for cannot be read.
        """
        raise NotImplementedError

    def list_groups(self, *, prefix: bytes = b"", after: bytes = b"") -> Iterator[GroupListing]:
        """The groups with ids that start with `prefix` and are larger than `after`, unsorted."""
        raise NotImplementedError

    def get_group(self, group_id: bytes) -> Group:
        """One group. Raises GroupIdNotFound, RecordUndecodable."""
        raise NotImplementedError

    def counters(self) -> ShardCounters:
        """Counts for logs and metrics."""
        raise NotImplementedError

    def misplaced_groups(self) -> list[bytes]:
        """Groups whose records are here although their hash belongs to another partition."""
        raise NotImplementedError

"""Decisions on a message's runs of commits, each by the state of its shard, and their replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from offsetd_storage.kernels import padded_buffer

from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.records.commit_batches import (
    RUN_BYTES_END,
    RUN_END,
    RUN_FIRST,
    RUN_FREE_END,
    RUN_LOG_PARTITION,
    RUN_WRITTEN,
    decide_runs,
    replay_runs,
)
from offsetd_coordinator.kernels.table.table_directory import directory_of
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from offsetd_coordinator.kernels.columns import Int64s
    from offsetd_coordinator.shard.shard import Shard, ShardConfig
    from offsetd_coordinator.wire.commit_reader import ReadCommits


class BatchCommitDecider:
    """Decides on the runs of one message at a time: `decide`, then `replay`. For one thread.

    `runs` has one row for each run, with the columns that `kernels.records.commit_batches` lists.
    `order` has the runs' commits, as rows of the commits that were read.
    """

    def __init__(self, shards: Mapping[int, Shard], config: ShardConfig, partitions: int) -> None:
        self._shards = shards
        self._value_version = config.offset_commit_value_version
        self._bytes_max = config.message_bytes_max
        self.batches = padded_buffer(self._bytes_max)  # The batches of the last decision.
        rows = {partition: shard.directory_row for partition, shard in shards.items()}
        self._directory = directory_of(rows, partitions)
        self._cursor = np.zeros(columns.CURSOR_COLUMNS, np.int64)
        self._ends = np.empty(COMMITS_AT_ONCE, np.int64)
        self._verdict = np.zeros(columns.VERDICT_COLUMNS, np.int64)
        self._conflicts = np.zeros((columns.CONFLICTS_MAX, columns.CONFLICT_COLUMNS), np.int64)

    def decide(
        self,
        read: ReadCommits,
        order: Int64s,
        runs: Int64s,
        answers: Int64s,
        *,
        now_ms: int,
        unchanged_ms: int,
        may_write: Collection[int],
    ) -> None:
        """Writes the batches of the first commits of each run.

        It stops before the first commit that needs a decision of its own, such as one to a guarded
        group, or one that repeats offsets stored less than `unchanged_ms` ago. `runs` gets the
        numbers of written batches, and `answers` their last offsets. `may_write` has the log
        partitions that accept writes.
        """
        runs[:, RUN_FREE_END] = runs[:, RUN_END]
        for at, partition in enumerate(runs[:, RUN_LOG_PARTITION].tolist()):
            if partition not in may_write:
                runs[at, RUN_FREE_END] = runs[at, RUN_FIRST]
            elif self._shards[partition].has_guarded_groups:
                first, end = runs[at, RUN_FIRST : RUN_END + 1].tolist()
                free = _count_free(self._shards[partition], read, order[first:end])
                runs[at, RUN_FREE_END] = first + free
        decide_runs(
            self._directory,
            read.names,
            read.commits,
            read.columns,
            order,
            now_ms,
            unchanged_ms,
            self._value_version,
            self._bytes_max,
            self.batches,
            self._verdict,
            self._conflicts,
            answers,
            runs,
            self._ends,
        )

    def keep_first(self, runs: Int64s, counts: Mapping[int, int]) -> None:
        """Notes that only the first batches of runs were appended: `counts` by log partition.

        If no batch of a run was appended, the rest of its row has no meaning.
        """
        for at, partition in enumerate(runs[:, RUN_LOG_PARTITION].tolist()):
            written = counts.get(partition, 0)
            runs[at, RUN_WRITTEN] = written
            if written:
                runs[at, RUN_BYTES_END] = self._ends[runs[at, RUN_FIRST] + written - 1]

    def replay(self, read: ReadCommits, order: Int64s, runs: Int64s) -> None:
        """Replays the decided batches of each run, once they are appended."""
        at = replay_runs(self._directory, self.batches, runs, 0, self._cursor)
        while at < len(runs):
            shard = self._shards[int(runs[at, RUN_LOG_PARTITION])]
            shard.replay_on(self.batches, int(runs[at, RUN_BYTES_END]), self._cursor)
            at = replay_runs(self._directory, self.batches, runs, at + 1, self._cursor)
        if read.report_end_offsets:
            for run in runs.tolist():
                first = run[RUN_FIRST]
                for place in order[first : first + run[RUN_WRITTEN]].tolist():
                    self._shards[run[RUN_LOG_PARTITION]].note_end_offsets(read.commit(place))


def _count_free(shard: Shard, read: ReadCommits, run: Int64s) -> int:
    """The number of commits in a run before the first one to a guarded group."""
    for place, group_id in enumerate(read.group_ids(run)):
        if shard.is_guarded(group_id):
            return place
    return int(run.size)

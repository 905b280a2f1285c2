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


class RunDecisions:
    """For one thread, and for the runs of one message at a time: `decide`, then `replay`.

    `runs` has a row each, as `kernels.records.commit_batches` lists them, and `order` their
    commits, as rows of what was read.
    """

    def __init__(self, shards: Mapping[int, Shard], config: ShardConfig, partitions: int) -> None:
        self._shards = shards
        self._value_version = config.offset_commit_value_version
        self._bytes_max = config.message_bytes_max
        self.batches = padded_buffer(self._bytes_max)  # Of what was decided last.
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
        """Writes the batches of the first commits of each run, as many as are simply written.

        `runs` gets how many, `answers` their last offsets. `may_write` has log partitions. What is
        stored since less than `unchanged_ms` is not simply written.
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
        """Only the first few batches of runs went into the log: so many, by log partition.

        Where none did, what else is said of the run counts for nothing.
        """
        for at, partition in enumerate(runs[:, RUN_LOG_PARTITION].tolist()):
            written = counts.get(partition, 0)
            runs[at, RUN_WRITTEN] = written
            if written:
                runs[at, RUN_BYTES_END] = self._ends[runs[at, RUN_FIRST] + written - 1]

    def replay(self, read: ReadCommits, order: Int64s, runs: Int64s) -> None:
        """Replays what was decided of each run, once it is appended."""
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
    """How many commits of a run, up to the first of a group to which not everybody may commit."""
    for place, group_id in enumerate(read.group_ids(run)):
        if shard.is_guarded(group_id):
            return place
    return int(run.size)

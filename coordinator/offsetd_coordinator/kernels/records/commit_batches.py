"""Sorts the commits of a message by log partition, and writes the batches of each at once.

A run is the commits of a message to one log partition. Its commits are decided together, and none
is replayed in between. So a run ends before a commit that depends on the state of its group if an
earlier commit of the run writes to the same group. (A commit depends on it if it has a request id
or a condition, or if commits that change nothing are not written.) A run also ends before a commit
that is refused, does not fit, is a duplicate or changes nothing. The caller then decides that
commit alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.kernels.byte_order import equal_bytes
from offsetd_storage.kernels.registry import inline_kernel, kernel

from offsetd_coordinator.kernels.columns import (
    BATCH_AT,
    LEADER_EPOCH,
    MONOTONIC,
    NO_EXPIRY,
    NO_PRECONDITION,
    OFFSET_NEXT,
    PRECONDITION,
    RECORD_AT,
    Commit,
)
from offsetd_coordinator.kernels.records.commit_batch import CommitTimes, judge_commit, put_commit
from offsetd_coordinator.kernels.records.replay import replay_into
from offsetd_coordinator.kernels.table.group_placement import log_partition_of
from offsetd_coordinator.kernels.table.table_directory import table_at
from offsetd_coordinator.kernels.wire.commit_fields import (
    FIRST_ROW,
    GROUP_SIZE,
    GROUP_START,
    REQUEST_ID_SIZE,
    REQUEST_ID_START,
    ROWS,
    SEQUENCE,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

# Columns of the answer to a commit.
ANSWER_SEQUENCE: Final = 0  # the bits of the uint64
ANSWER_LOG_PARTITION: Final = 1
ANSWER_LAST_OFFSET: Final = 2
ANSWER_COLUMNS: Final = 3

# Columns of a run. The caller sets RUN_FREE_END: the commits before it may be written together.
RUN_LOG_PARTITION: Final = 0
RUN_FIRST: Final = 1  # the place in the order at which it begins
RUN_END: Final = 2
RUN_FREE_END: Final = 3
RUN_WRITTEN: Final = 4  # the number of its commits that are in the batches
RUN_BYTES_START: Final = 5
RUN_BYTES_END: Final = 6
RUN_COLUMNS: Final = 7


@kernel("int64(uint8[::1], int64[:, ::1], int64, int64[:, ::1], int64[::1], int64[:, ::1])")
def sort_commits(
    names: Bytes,
    commits: Int64s,
    partitions: int,
    answers: Int64s,
    order: Int64s,
    runs: Int64s,
) -> int:
    """Sort commits by the log partition of their groups, stably. Returns the number of runs.

    Writes the sequence and the log partition of each commit to `answers`, and the part of `order`
    of each log partition to `runs`. `answers` and `order` have at least one row for each commit,
    `runs` one for each log partition.
    """
    for partition in range(partitions):
        runs[partition, RUN_LOG_PARTITION] = partition
        runs[partition, RUN_END] = 0
    for commit in range(commits.shape[0]):
        start, size = commits[commit, GROUP_START], commits[commit, GROUP_SIZE]
        partition = log_partition_of(names, start, size, partitions)
        answers[commit, ANSWER_SEQUENCE] = commits[commit, SEQUENCE]
        answers[commit, ANSWER_LOG_PARTITION] = partition
        runs[partition, RUN_END] += 1
    count = 0
    for partition in range(partitions):
        runs[partition, RUN_FIRST] = count
        count += runs[partition, RUN_END]
        runs[partition, RUN_END] = runs[partition, RUN_FIRST]
    for commit in range(commits.shape[0]):
        partition = answers[commit, ANSWER_LOG_PARTITION]
        order[runs[partition, RUN_END]] = commit
        runs[partition, RUN_END] += 1
    return _without_empty(runs, partitions)


@inline_kernel
def _without_empty(runs: Int64s, partitions: int) -> int:
    """Move the runs that have commits to the front. Returns their number."""
    count = 0
    for partition in range(partitions):
        if runs[partition, RUN_FIRST] < runs[partition, RUN_END]:
            for column in range(RUN_COLUMNS):
                runs[count, column] = runs[partition, column]
            count += 1
    return count


@kernel(
    "void(int64[::1], uint8[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, "
    "int64, int64, uint8[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1])"
)
def decide_runs(
    directory: Int64s,
    names: Bytes,
    commits: Int64s,
    all_columns: Int64s,
    order: Int64s,
    now_ms: int,
    unchanged_ms: int,
    value_version: int,
    bytes_max: int,
    out: Bytes,
    verdict: Int64s,
    conflicts: Int64s,
    answers: Int64s,
    runs: Int64s,
    ends: Int64s,
) -> None:
    """Write the batches of each run's first commits to `out`, up to one that cannot be written.

    `directory` has the tables by log partition. `out` has room for `bytes_max`, the limit for all
    batches together, and some padding. `ends` gets the end of the batch of each commit in `order`.
    `verdict` and `conflicts` are scratch.
    """
    times = CommitTimes(now_ms, NO_EXPIRY)
    position = 0
    for at in range(runs.shape[0]):
        runs[at, RUN_WRITTEN] = 0
        if runs[at, RUN_FIRST] == runs[at, RUN_FREE_END]:
            continue  # Then there may be no table.
        table = table_at(directory, runs[at, RUN_LOG_PARTITION])
        run = order[runs[at, RUN_FIRST] : runs[at, RUN_FREE_END]]
        run_ends = ends[runs[at, RUN_FIRST] : runs[at, RUN_FREE_END]]
        base_offset = table.counters[OFFSET_NEXT]
        leader_epoch = table.counters[LEADER_EPOCH]
        written = 0
        runs[at, RUN_BYTES_START] = position
        for row in run:
            commit = _commit_at(names, commits, all_columns, row)
            if _looks(commit, unchanged_ms) and _is_group_in(names, commits, run[:written], commit):
                break
            if judge_commit(table, commit, times, unchanged_ms, verdict, conflicts) != 0:
                break
            end = put_commit(
                commit, times, base_offset, leader_epoch, value_version, out, position, bytes_max
            )
            if end < 0:
                break
            base_offset += commit.columns.shape[0]
            answers[row, ANSWER_LAST_OFFSET] = base_offset - 1
            run_ends[written] = position = end
            written += 1
        runs[at, RUN_WRITTEN] = written
        runs[at, RUN_BYTES_END] = position


@kernel("int64(int64[::1], uint8[::1], int64[:, ::1], int64, int64[::1])")
def replay_runs(directory: Int64s, batches: Bytes, runs: Int64s, first: int, cursor: Int64s) -> int:
    """Replay the batches of runs, starting at the row `first`.

    Returns the row of the first run that `replay_into` did not finish; the cursor has the position
    at which it stopped. Returns the number of rows if all runs are replayed.
    """
    count: int = runs.shape[0]
    for at in range(first, count):
        if runs[at, RUN_WRITTEN] == 0:
            continue
        cursor[BATCH_AT] = runs[at, RUN_BYTES_START]
        cursor[RECORD_AT] = 0
        table = table_at(directory, runs[at, RUN_LOG_PARTITION])
        replay_into(table, batches, runs[at, RUN_BYTES_END], cursor)
        if cursor[BATCH_AT] < runs[at, RUN_BYTES_END]:
            return at
    return count


@inline_kernel
def _commit_at(names: Bytes, commits: Int64s, all_columns: Int64s, row: int) -> Commit:
    first_row = commits[row, FIRST_ROW]
    return Commit(
        names,
        all_columns[first_row : first_row + commits[row, ROWS]],
        commits[row, GROUP_START],
        commits[row, GROUP_SIZE],
        commits[row, REQUEST_ID_START],
        commits[row, REQUEST_ID_SIZE],
    )


@inline_kernel
def _looks(commit: Commit, unchanged_ms: int) -> bool:
    """Returns whether the answer to a commit depends on the state of its group."""
    if commit.request_id_size > 0 or unchanged_ms > 0:
        return True
    for row in range(commit.columns.shape[0]):
        if commit.columns[row, PRECONDITION] != NO_PRECONDITION:
            return True
        if commit.columns[row, MONOTONIC] != 0:
            return True
    return False


@inline_kernel
def _is_group_in(names: Bytes, commits: Int64s, run: Int64s, commit: Commit) -> bool:
    """Returns whether an earlier commit of the run has the same group."""
    for place in range(run.size):
        row = run[place]
        if commits[row, GROUP_SIZE] == commit.group_size and equal_bytes(
            names, commits[row, GROUP_START], names, commit.group_start, commit.group_size
        ):
            return True
    return False

"""Submission of a stream message's commits in runs. A run has commits of one log partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.kernels.records.commit_batches import (
    ANSWER_COLUMNS,
    ANSWER_LAST_OFFSET,
    RUN_BYTES_END,
    RUN_BYTES_START,
    RUN_COLUMNS,
    RUN_END,
    RUN_FIRST,
    RUN_LOG_PARTITION,
    RUN_WRITTEN,
    sort_commits,
)
from offsetd_coordinator.requests import CommitReply
from offsetd_coordinator.shard.batch_commit_decider import BatchCommitDecider
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from offsetd_coordinator.kernels.columns import Int64s
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.wire.commit_reader import ReadCommits

_NONE: Final[dict[int, CoordinatorError]] = {}
# The most commits that may be checked for each commit that a run writes. Above it, runs cost too
# much.
_LOOKED_AT_MAX: Final = 32


class SubmittedCommits(NamedTuple):
    """The outcomes of commits; they may be sent once the ticket is durable.

    `tickets` has one for each log partition of the commits; `ticket` is the newest. `answers` has a
    row for each commit, in the form of `kernels.records.commit_batches`. `refusals` has the commits
    that were refused, by row. Those of `at_once` rest on nothing in the log.
    """

    ticket: int
    tickets: list[int]
    answers: Int64s
    refusals: Mapping[int, CoordinatorError]
    at_once: Collection[int] = ()


class CommitRuns:
    """Submits to one runtime, on its thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._append_runs = runtime.log.append_runs
        self._tickets = runtime.log.tickets
        self._made: tuple[int, BatchCommitDecider] | None = None
        self._order = np.empty(COMMITS_AT_ONCE, np.int64)
        self._runs = np.empty((runtime.partitions, RUN_COLUMNS), np.int64)
        self._at_once: set[int] = set()

    def submit(
        self, read: ReadCommits, refused: Mapping[int, CoordinatorError] = _NONE
    ) -> SubmittedCommits:
        """Submits each commit like `Runtime.submit`, each group's commits in order.

        Commits that are `refused` already, by place, are not submitted. Then all others are
        submitted one by one.

        Each pass checks all remaining commits for runs. If runs write only a few commits, more and
        more of each run are submitted alone before the next pass. So the work does not grow faster
        than the number of commits.
        """
        count = len(read.commits)
        answers = np.empty((count, ANSWER_COLUMNS), np.int64)
        refusals = dict(refused)
        self._at_once = set(refused)
        found = sort_commits(
            read.names, read.commits, self._runtime.partitions, answers, self._order, self._runs
        )
        runs, ticket, alone = self._runs[:found], 0, 1
        partitions = runs[:, RUN_LOG_PARTITION].tolist()
        if refused:
            ticket = self._submit_others(read, answers, refusals)
            runs = runs[:0]
        while runs.size:
            run_ticket, written = self._submit_together(runs, read, answers)
            ticket = max(ticket, run_ticket)
            if written == count:
                break
            is_worth_it = written > len(runs) and count <= written * _LOOKED_AT_MAX
            alone = 1 if is_worth_it else 2 * alone
            alone_ticket, runs = self._submit_next(runs, alone, read, answers, refusals)
            ticket = max(ticket, alone_ticket)
            count = int((runs[:, RUN_END] - runs[:, RUN_FIRST]).sum())
        tickets = [self._tickets[partition] for partition in partitions]
        return SubmittedCommits(ticket, tickets, answers, refusals, self._at_once)

    def _submit_others(
        self, read: ReadCommits, answers: Int64s, refusals: dict[int, CoordinatorError]
    ) -> int:
        """Submits the commits that are not refused, one by one. Returns the newest ticket."""
        places = [place for place in range(len(read.commits)) if place not in refusals]
        return max(
            (self._submit_alone(read, each, answers, refusals) for each in places), default=0
        )

    def _submit_together(self, runs: Int64s, read: ReadCommits, answers: Int64s) -> tuple[int, int]:
        """Writes the first commits of each run, up to one that needs `submit`.

        Returns their ticket, and their number.
        """
        runtime = self._runtime
        if not runtime.takes_runs:
            runs[:, RUN_WRITTEN] = 0
            return 0, 0
        now = runtime.moment()
        self._decisions.decide(
            read,
            self._order,
            runs,
            answers,
            now_ms=now.wall_ms,
            unchanged_ms=runtime.expiry_config.unchanged_commit_ms,
            may_write=runtime.serving_partitions,
        )
        ticket, written = runtime.stop_unless_done(lambda: self._append_and_replay(runs, read))
        if written and runtime.commit_guards.counts_groups:
            runtime.commit_guards.note(self._groups_written(runs, read, written), now.monotonic_ms)
        return ticket, written

    def _append_and_replay(self, runs: Int64s, read: ReadCommits) -> tuple[int, int]:
        """Appends and replays the decided commits. Returns their ticket and their number."""
        decisions, decided = self._decisions, runs[runs[:, RUN_WRITTEN] > 0]
        partitions = decided[:, RUN_LOG_PARTITION].tolist()
        spans = decided[:, RUN_BYTES_START : RUN_BYTES_END + 1].copy()
        appended, tickets = self._append_runs(partitions, decisions.batches, spans)
        if appended != decided[:, RUN_WRITTEN].tolist():
            decisions.keep_first(runs, dict(zip(partitions, appended, strict=True)))
        written = sum(appended)
        if not written:
            return 0, 0
        decisions.replay(read, self._order, runs)
        return max(tickets), written

    def _groups_written(self, runs: Int64s, read: ReadCommits, written: int) -> list[bytes]:
        """The group of each commit that is in the log now, in any order."""
        if written == len(read.commits):
            return read.all_group_ids
        places = [
            self._order[first : first + count]
            for first, count in runs[:, [RUN_FIRST, RUN_WRITTEN]].tolist()
        ]
        return read.group_ids(np.concatenate(places))

    @property
    def _decisions(self) -> BatchCommitDecider:
        """The decider. It refers to the shards' tables, so a change of shards makes a new one."""
        version = self._runtime.shards_version
        if self._made is None or self._made[0] != version:
            shards = self._runtime.shards
            config = next(iter(shards.values())).config  # All have the same.
            self._made = version, BatchCommitDecider(shards, config, self._runtime.partitions)
        return self._made[1]

    def _submit_next(
        self,
        runs: Int64s,
        alone: int,
        read: ReadCommits,
        answers: Int64s,
        refusals: dict[int, CoordinatorError],
    ) -> tuple[int, Int64s]:
        """Submits `alone` commits of each run one by one. Returns their ticket and the rest."""
        ticket, left = 0, []
        for run in runs.tolist():
            first = run[RUN_FIRST] + run[RUN_WRITTEN]
            end = min(first + alone, run[RUN_END])
            for place in self._order[first:end].tolist():
                ticket = max(ticket, self._submit_alone(read, place, answers, refusals))
            if end < run[RUN_END]:
                run[RUN_FIRST] = end
                left.append(run)
        return ticket, np.array(left, np.int64).reshape(len(left), RUN_COLUMNS)

    def _submit_alone(
        self,
        read: ReadCommits,
        place: int,
        answers: Int64s,
        refusals: dict[int, CoordinatorError],
    ) -> int:
        """Submits one commit by itself. Returns the ticket of its outcome."""
        ticket = 0
        try:
            ticket, outcome = self._runtime.submit(read.commit(place))
        except CoordinatorError as refusal:
            outcome = refusal
            self._at_once.add(place)
        if isinstance(outcome, CommitReply):
            answers[place, ANSWER_LAST_OFFSET] = outcome.last_offset
        else:
            assert isinstance(outcome, CoordinatorError), "what a commit may come to"
            refusals[place] = outcome.without_traces()
        return ticket

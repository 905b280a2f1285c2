"""Commits of one message of a stream, submitted by runs: those of a log partition at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from offsetd_coordinator.commit_wire import COMMITS_AT_ONCE
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.kernels.commit_runs import (
    ANSWER_COLUMNS,
    ANSWER_LAST_OFFSET,
    RUN_COLUMNS,
    sort_commits,
)
from offsetd_coordinator.requests import CommitReply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_coordinator.commit_wire import ReadCommits
    from offsetd_coordinator.kernels.columns import Int64s
    from offsetd_coordinator.runtime import Runtime

# Commits that were looked at for each that a run got. Beyond, the run was not worth it.
_LOOKED_AT_MAX: Final = 32


class SubmittedCommits(NamedTuple):
    """What became of commits; it may be told once the ticket is durable.

    `answers` has a row each, as `kernels.commit_runs` lists them. What is in `refusals`, by row,
    was not committed.
    """

    ticket: int
    answers: Int64s
    refusals: Mapping[int, CoordinatorError]


class CommitRuns:
    """Submits to one runtime, on its thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._order = np.empty(COMMITS_AT_ONCE, np.int64)
        self._runs = np.empty((runtime.partitions, RUN_COLUMNS), np.int64)

    def submit(self, read: ReadCommits) -> SubmittedCommits:
        """Each commit as `Runtime.submit` would, in the order of their groups' commits."""
        count = len(read.commits)
        answers = np.empty((count, ANSWER_COLUMNS), np.int64)
        refusals: dict[int, CoordinatorError] = {}
        runs = sort_commits(
            read.names, read.commits, self._runtime.partitions, answers, self._order, self._runs
        )
        ticket = 0
        for partition, first, end in self._runs[:runs].tolist():
            run = self._order[first:end]
            ticket = max(ticket, self._submit_run(partition, read, run, answers, refusals))
        return SubmittedCommits(ticket, answers, refusals)

    def _submit_run(
        self,
        partition: int,
        read: ReadCommits,
        run: Int64s,
        answers: Int64s,
        refusals: dict[int, CoordinatorError],
    ) -> int:
        """The commits to one log partition; their ticket.

        All that are left are looked at for a run. Where it gets few of them, more and more go
        alone before the next one, so that the work grows no faster than the commits.
        """
        ticket, alone = 0, 1
        while run.size:
            written = 0
            if run.size > 1:  # One is cheaper alone.
                run_ticket, written = self._runtime.submit_run(partition, read, run, answers)
                ticket = max(ticket, run_ticket)
            is_worth_it = written > 1 and run.size <= written * _LOOKED_AT_MAX
            alone = 1 if is_worth_it else 2 * alone
            for place in run[written : written + alone].tolist():
                ticket = max(ticket, self._submit_alone(read, place, answers, refusals))
            run = run[written + alone :]
        return ticket

    def _submit_alone(
        self,
        read: ReadCommits,
        place: int,
        answers: Int64s,
        refusals: dict[int, CoordinatorError],
    ) -> int:
        """A commit that is not simply written; the ticket of what became of it."""
        ticket = 0
        try:
            ticket, outcome = self._runtime.submit(read.commit(place))
        except CoordinatorError as refusal:
            outcome = refusal
        if isinstance(outcome, CommitReply):
            answers[place, ANSWER_LAST_OFFSET] = outcome.last_offset
        else:
            assert isinstance(outcome, CoordinatorError), "what a commit may come to"
            refusals[place] = outcome.without_traces()
        return ticket

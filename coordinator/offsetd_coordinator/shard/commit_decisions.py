"""Decisions on single commits to one log partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from offsetd_coordinator.errors import InvalidRetention
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.records.commit_batch import decide_commit
from offsetd_coordinator.requests import CommitOffsets, CommitReply, Decision
from offsetd_coordinator.state.commit_verdicts import (
    commit_refusal,
    unchanged_ms_of,
)

if TYPE_CHECKING:
    from offsetd_coordinator.membership.member_requests import Moment
    from offsetd_coordinator.state.offset_batches import BatchForm
    from offsetd_coordinator.state.replayed_state import ReplayedState
    from offsetd_coordinator.state.write_authorisation import WriteAuthorisation

_VERSION_WITHOUT_EXPIRY: Final = 3  # This version of OffsetCommitValue cannot store an expiry.


class CommitTerms(NamedTuple):
    """The time of commits, and their place in the log.

    A commit that repeats offsets stored less than `unchanged_ms` ago is not written again.
    """

    now: Moment
    base_offset: int
    leader_epoch: int
    unchanged_ms: int


class CommitDecisions:
    """Decides by the state of one shard, and does not change it."""

    def __init__(self, state: ReplayedState, writers: WriteAuthorisation, form: BatchForm) -> None:
        self._state = state
        self._writer_refusal = writers.commit_refusal
        self._value_version, self._batch_bytes_max, self._out = form
        self._verdict = np.zeros(columns.VERDICT_COLUMNS, np.int64)
        self._conflicts = np.zeros((columns.CONFLICTS_MAX, columns.CONFLICT_COLUMNS), np.int64)

    def decide(self, commit: CommitOffsets, terms: CommitTerms) -> Decision:
        """The batch to write and the answer. A refusal is part of the decision."""
        if commit.retention_ms >= 0 and self._value_version == _VERSION_WITHOUT_EXPIRY:
            refused = InvalidRetention("retention", "offset.commit.value.version=3 cannot hold it")
            return Decision(commit, None, refused)
        now_ms = terms.now.wall_ms
        size = decide_commit(
            self._state.offsets.arrays,
            *commit.as_arguments(),
            now_ms,
            -1 if commit.retention_ms < 0 else now_ms + commit.retention_ms,
            self._unchanged_ms(commit.group_id, terms) if terms.unchanged_ms else 0,
            terms.base_offset,
            terms.leader_epoch,
            self._value_version,
            self._batch_bytes_max,
            self._out,
            self._verdict,
            self._conflicts,
        )
        if size == columns.DUPLICATE:
            first_answer = int(self._verdict[columns.VERDICT_LAST_OFFSET])
            return Decision(commit, CommitReply(first_answer), None)
        refusal = self._writer_refusal(commit, terms.now)
        if size == columns.UNCHANGED and refusal is None:
            newest = int(self._verdict[columns.VERDICT_LAST_OFFSET])
            return Decision(commit, CommitReply(newest), None, is_unchanged=True)
        if refusal is not None or size < 0:
            refusal = refusal or commit_refusal(
                commit, size, self._verdict, self._conflicts, self._batch_bytes_max
            )
            return Decision(commit, None, refusal)
        last_offset = terms.base_offset + len(commit.columns) - 1
        batch = self._out[:size].tobytes()
        return Decision(commit, CommitReply(last_offset), None, batch, last_offset, now_ms)

    def _unchanged_ms(self, group_id: bytes, terms: CommitTerms) -> int:
        return unchanged_ms_of(terms.unchanged_ms, self._state.known_group_records(group_id))

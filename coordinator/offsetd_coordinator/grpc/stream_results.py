"""Encoding of commit results as the bytes of a StreamCommitsResponse.

Encoded responses may be concatenated: protobuf then appends the repeated fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from offsetd.v1 import offset_service_pb2

from offsetd_coordinator.kernels.records.commit_batches import ANSWER_COLUMNS, ANSWER_SEQUENCE
from offsetd_coordinator.kernels.wire.result_fields import RESULT_BYTES_MAX, put_results
from offsetd_coordinator.messages import statuses
from offsetd_coordinator.requests import CommitReply
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE

if TYPE_CHECKING:
    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.kernels.columns import Int64s
    from offsetd_coordinator.runtime.commit_runs import SubmittedCommits

_UINT64_MASK: Final = (1 << 64) - 1


class StreamResults(NamedTuple):
    """Results of some commits. `refusal_codes` has the gRPC codes of the refused ones."""

    response: bytes
    commits: int
    refusal_codes: tuple[int, ...] = ()


class ResultEncoder:
    """Encodes results; for one thread."""

    def __init__(self) -> None:
        self._out = np.empty(COMMITS_AT_ONCE * RESULT_BYTES_MAX, np.uint8)
        self._answer = np.empty((1, ANSWER_COLUMNS), np.int64)

    def encode(self, submitted: SubmittedCommits) -> StreamResults:
        """The results' bytes, in the order of the commits."""
        answers, refusals = submitted.answers, submitted.refusals
        if not refusals:
            return StreamResults(self._committed(answers, 0, len(answers)), len(answers))
        parts: list[bytes] = []
        codes: list[int] = []
        first = 0
        for place in sorted(refusals):
            parts.append(self._committed(answers, first, place))
            sequence = int(answers[place, ANSWER_SEQUENCE]) & _UINT64_MASK
            refused = refused_result(sequence, refusals[place])
            parts.append(refused.response)
            codes += refused.refusal_codes
            first = place + 1
        parts.append(self._committed(answers, first, len(answers)))
        return StreamResults(b"".join(parts), len(answers), tuple(codes))

    def encode_one(
        self, sequence: int, log_partition: int, outcome: CommitReply | CoordinatorError
    ) -> StreamResults:
        """The bytes of one commit's result."""
        if not isinstance(outcome, CommitReply):
            return refused_result(sequence, outcome)
        bits = sequence - (1 << 64) if sequence >> 63 else sequence
        self._answer[0] = bits, log_partition, outcome.last_offset
        return StreamResults(self._committed(self._answer, 0, 1), 1)

    def _committed(self, answers: Int64s, first: int, end: int) -> bytes:
        return self._out[: put_results(answers, first, end, self._out)].tobytes()


def refused_result(sequence: int, refusal: CoordinatorError) -> StreamResults:
    """The bytes of the result of one refused commit."""
    status = statuses.status_of(refusal)
    result = offset_service_pb2.CommitResult(sequence=sequence, error=status)
    response = offset_service_pb2.StreamCommitsResponse(results=[result])
    return StreamResults(response.SerializeToString(), 1, (int(status.code),))

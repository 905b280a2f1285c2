"""A commit that is decided by itself, among commits that are submitted together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.errors import CoordinatorError, InvalidField
from offsetd_coordinator.requests import CommitReply

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.requests import CommitOffsets
    from offsetd_coordinator.runtime.runtime import Runtime


def submitted(
    runtime: Runtime,
    commit: CommitOffsets | InvalidField,
    require: Callable[[CommitOffsets], None] | None,
) -> tuple[int, int, CommitReply | CoordinatorError]:
    """Submits a commit. Returns its ticket, its log partition, and the reply or the refusal.

    `require` raises AuthorizationFailed if the caller may not commit this; None allows all. A
    refusal that rests on nothing in the log has ticket 0, and no partition. It keeps no traceback.
    """
    try:
        if isinstance(commit, InvalidField):
            raise commit
        if require is not None:
            require(commit)
        ticket, outcome = runtime.submit(commit)
    except CoordinatorError as refusal:
        return 0, 0, refusal.without_traces()
    assert isinstance(outcome, CommitReply | CoordinatorError), "what a commit may come to"
    return ticket, runtime.partition_of(commit.group_id), outcome

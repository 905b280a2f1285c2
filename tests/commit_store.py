"""Offsets in memory behind the calls of a client that a write makes, and refusals as told."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from offsetd_clients import (
    CommittedOffset,
    Conflict,
    OffsetConflict,
    OffsetdError,
    Revision,
    TopicPartition,
)
from offsetd_clients.errors import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class CommitStore:
    """Applies a commit once for each request id; `refusals` are by group."""

    def __init__(self, *, conflicts_listed_max: int = 100) -> None:
        self.offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self.requests: list[Any] = []
        self.refusals: dict[str, OffsetdError] = {}
        self.known: set[tuple[str, str]] = set()
        self.closed = 0
        self._conflicts_listed_max = conflicts_listed_max

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1

    def numbers(self) -> dict[str, dict[int, int]]:
        """Offsets by group and partition, whatever the topic."""
        return {
            group: {where.partition: each.offset for where, each in stored.items()}
            for group, stored in self.offsets.items()
        }

    def commit_request_soon(self, request: Any) -> Future[Revision]:
        self.requests.append(request)
        future: Future[Revision] = Future()
        try:
            future.set_result(self._commit(request))
        except OffsetdError as error:
            future.set_exception(error)
        return future

    def fetch(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, CommittedOffset]:
        stored = self.offsets.get(group_id, {})
        return {each: stored[each] for each in partitions if each in stored}

    def _commit(self, request: Any) -> Revision:
        group_id = request.group_id
        if refusal := self.refusals.get(group_id):
            raise refusal
        if (group_id, request.request_id) in self.known:
            return Revision(0, 0)
        stored = self.offsets.setdefault(group_id, {})
        conflicts = [
            Conflict(
                topic_partition=where,
                offset=now and now.offset,
                revision=now and now.revision,
            )
            for each in request.offsets
            for where in [TopicPartition(each.topic, each.partition)]
            for now in [stored.get(where)]
            if _stands_in_the_way(each, now)
        ]
        if conflicts:
            raise OffsetConflict(
                failure(
                    "ABORTED",
                    "OFFSET_CONFLICT",
                    f"{len(conflicts)} preconditions do not hold",
                    conflicts=tuple(conflicts[: self._conflicts_listed_max]),
                    details={"conflict_count": str(len(conflicts))},
                )
            )
        self.known.add((group_id, request.request_id))
        for each in request.offsets:
            stored[TopicPartition(each.topic, each.partition)] = CommittedOffset(
                offset=each.offset,
                leader_epoch=each.leader_epoch if each.HasField("leader_epoch") else None,
                metadata=each.metadata,
                commit_time=datetime(2026, 1, 1, tzinfo=UTC),
                expire_time=None,
                revision=len(self.requests),
                end_offset=None,
            )
        return Revision(0, len(self.requests))


def failure(code: str, reason: str, message: str = "it went wrong", **more: Any) -> Failure:
    """As a server's answer says it."""
    return Failure(code=code, reason=reason, message=message, **more)


def _stands_in_the_way(commit: Any, now: CommittedOffset | None) -> bool:
    match commit.WhichOneof("precondition"):
        case "must_not_exist":
            return now is not None
        case "expected_offset":
            return now is None or now.offset != commit.expected_offset
        case "expected_revision":
            return now is None or now.revision != commit.expected_revision
    return False

"""What commits to groups ask of a client, answered from memory by the server's rules."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import attrs
from offsetd_clients import (
    CommittedOffset,
    Conflict,
    ImportedGroup,
    OffsetConflict,
    OffsetNotMonotonic,
    OffsetToCommit,
    Revision,
    TopicPartition,
    Unavailable,
)
from offsetd_clients.errors import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def unavailable() -> Unavailable:
    """The error of a server that is away."""
    return Unavailable(Failure(code="UNAVAILABLE", message="the server is away"))


@attrs.frozen
class Commit:
    """One that was stored: its name, what it held, and what of it the metadata say."""

    group_id: str
    request_id: str
    offsets: Mapping[TopicPartition, OffsetToCommit]

    @property
    def batch_id(self) -> int:
        [batch_id] = {json.loads(each.metadata)["batch"] for each in self.offsets.values()}
        return int(batch_id)


class GroupsInMemory:
    """While `error` is set every call raises it; with `loses_answers` behind a commit."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self.commits: list[Commit] = []
        self.error: Exception | None = None
        self.loses_answers = False
        self.tries = 0
        self._revision = -1
        self._answers: dict[tuple[str, str], Revision] = {}

    def with_retry(self, _policy: object) -> Self:
        return self

    def close(self) -> None:
        pass

    def put(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """As somebody else would."""
        self._write(group_id, {TopicPartition(topic, partition): OffsetToCommit(offset)})

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The plain offsets of a group."""
        stored = self.stored.get(group_id, {})
        return {(at.topic, at.partition): each.offset for at, each in stored.items()}

    def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        self._check_there()
        stored = self.stored.get(group_id, {})
        chosen = stored if partitions is None else partitions
        return {each: stored[each] for each in chosen if each in stored}

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetToCommit],
        *,
        retention: object = None,
        request_id: str | None = None,
    ) -> Revision:
        self.tries += 1
        if not self.loses_answers:
            self._check_there()
        revision = self._answers.get((group_id, request_id or ""))
        if revision is None:
            self._check(group_id, offsets)
            revision = self._write(group_id, offsets)
            self.commits.append(Commit(group_id, request_id or "", dict(offsets)))
            self._answers[group_id, request_id or ""] = revision
        self._check_there()
        return revision

    def import_offsets(
        self, content: bytes, _format: object, *, validate_only: bool = False, reason: str = ""
    ) -> tuple[ImportedGroup, ...]:
        self._check_there()
        lines = [json.loads(line) for line in content.splitlines()]
        [group_id] = {line.pop("group") for line in lines}
        offsets = {
            TopicPartition(line.pop("topic"), line.pop("partition")): OffsetToCommit(
                line.pop("offset"), **line
            )
            for line in lines
        }
        try:
            self._check(group_id, offsets)
        except OffsetConflict as error:
            return (_imported(group_id, 0, None, error),)
        revision = None if validate_only else self._write(group_id, offsets)
        return (_imported(group_id, len(offsets), revision, None),)

    def _check_there(self) -> None:
        if self.error is not None:
            raise self.error

    def _check(self, group_id: str, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        stored = self.stored.get(group_id, {})
        backwards, differing = [], []
        for where, each in offsets.items():
            there = stored.get(where)
            revision = None if there is None else there.revision
            conflict = Conflict(
                topic_partition=where,
                offset=None if there is None else there.offset,
                revision=revision,
            )
            if each.monotonic and there is not None and there.offset > each.offset:
                backwards.append(conflict)
            if each.must_not_exist and there is not None:
                differing.append(conflict)
            if each.expected_revision is not None and each.expected_revision != revision:
                differing.append(conflict)
        if differing:
            raise OffsetConflict(_refusal(differing))
        if backwards:
            raise OffsetNotMonotonic(_refusal(backwards))

    def _write(self, group_id: str, offsets: Mapping[TopicPartition, OffsetToCommit]) -> Revision:
        for where, each in offsets.items():
            self._revision += 1
            self.stored.setdefault(group_id, {})[where] = CommittedOffset(
                offset=each.offset,
                leader_epoch=None,
                metadata=each.metadata,
                commit_time=TIME,
                expire_time=None,
                revision=self._revision,
                end_offset=each.end_offset,
            )
        return Revision(0, self._revision)


def _refusal(conflicts: list[Conflict]) -> Failure:
    return Failure(code="ABORTED", message="refused", conflicts=tuple(conflicts))


def _imported(group_id: str, count: int, revision: Any, error: Any) -> ImportedGroup:
    return ImportedGroup(group_id=group_id, offset_count=count, revision=revision, error=error)

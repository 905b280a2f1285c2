"""Tracks what one streaming query has committed and must still commit.

It has no thread or clock, and calls no server.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs
from offsetd_clients import OffsetToCommit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from offsetd_clients import CommittedOffset, Conflict, Revision, TopicPartition

    from offsetd_pipeline.queries.kafka_progress import BatchProgress, Position

PART_OFFSETS_MAX: Final = 1000
"""The most offsets of one commit. They stay far below the size limit of a record batch."""
TURNS_MAX: Final = 5
"""A commit counts as failed after its condition did not hold this many times in a row."""


def told_batch(query_id: str, batch_id: int) -> str:
    """The metadata of an offset that a streaming query commits."""
    return json.dumps({"spark_query": query_id, "batch": batch_id}, separators=(",", ":"))


class Rewinds(StrEnum):
    """Decides what happens to a group whose query reads committed records again.

    REFUSE: an offset never goes back; the group waits until the query reaches it again. FOLLOW: the
    group follows the query; if another client sets it, the group returns to the query's offsets.
    """

    REFUSE = "refuse"
    FOLLOW = "follow"


@attrs.frozen(kw_only=True, eq=False)
class Part:
    """One commit: all or a part of a batch."""

    request_id: str
    batch_id: int
    positions: Mapping[TopicPartition, Position]


@attrs.frozen
class _Done:
    position: Position
    time_s: float


class QueryCommits:
    """The commits of a query.

    Its newest batch counts: offsets are absolute, so older batches may be skipped.

    Times are in seconds of one steady clock.
    """

    def __init__(self, group_id: str, *, rewinds: Rewinds, refresh_s: float) -> None:
        """Unchanged offsets are committed again after `refresh_s`, so that they do not expire."""
        self.group_id = group_id
        self.due_s = 0.0  # The time of the next attempt after a failure.
        self.failures = 0  # The failures in a row.
        self.refusals = 0  # The refusals in a row.
        self.committed_batch_id = -1
        self.held_back: set[TopicPartition] = set()  # The partitions whose stored offset is larger.
        self.progress: BatchProgress | None = None
        self._rewinds = rewinds
        self._refresh_s = refresh_s
        self._order = (-1, -1)
        self._is_cut = True
        self._parts: list[Part] = []
        self._cuts = 0
        self._done: dict[TopicPartition, _Done] = {}
        # Only FOLLOW uses it: the revision of each stored offset; None if none is stored.
        self._revisions: dict[TopicPartition, int | None] = {}

    @property
    def is_behind(self) -> bool:
        """Whether there is progress to commit, or to compare with the committed offsets."""
        return not self._is_cut or bool(self._parts)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the query reads."""
        return frozenset() if self.progress is None else self.progress.topics

    def is_newer(self, progress: BatchProgress, run_number: int) -> bool:
        """Whether the batch is newer than all known ones."""
        return (run_number, progress.batch_id) > self._order

    def put(self, progress: BatchProgress, run_number: int) -> bool:
        """Replaces uncommitted progress by this batch. Returns False if a newer batch is known."""
        if not self.is_newer(progress, run_number):
            return False
        self._order, self.progress = (run_number, progress.batch_id), progress
        self._is_cut, self._parts = False, []
        return True

    def refresh(self, now_s: float) -> bool:
        """Commits the newest batch again, if the commit of a part of it is old enough."""
        if self.is_behind or not any(self._is_old(each, now_s) for each in self._done.values()):
            return False
        self._is_cut = False
        return True

    def drop(self) -> None:
        """Gives up uncommitted progress."""
        self._is_cut, self._parts = True, []

    def next_part(self, now_s: float) -> Part | None:
        """The next commit, or None. It stays the next one until it is committed."""
        if not self._is_cut:
            self._cut(now_s)
        return self._parts[0] if self._parts else None

    def unknown(self, part: Part) -> list[TopicPartition]:
        """Partitions whose stored offsets must be fetched before they can be committed."""
        if self._rewinds is Rewinds.REFUSE:
            return []
        return [each for each in part.positions if each not in self._revisions]

    def learn(
        self, asked: Iterable[TopicPartition], stored: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Notes the stored offsets that were fetched for these partitions."""
        for where in asked:
            found = stored.get(where)
            self._revisions[where] = None if found is None else found.revision

    def offsets_of(self, part: Part) -> dict[TopicPartition, OffsetToCommit]:
        """The offsets of a part, with their conditions."""
        assert self.progress is not None, "a part is one of a batch"
        metadata = told_batch(self.progress.query_id, part.batch_id)
        return {
            where: self._to_commit(where, position, metadata)
            for where, position in part.positions.items()
        }

    def committed(self, part: Part, revision: Revision, now_s: float) -> None:
        """Notes that the part is stored; `revision` is the revision of its last offset."""
        self.failures = self.refusals = 0
        first = revision.log_offset - len(part.positions) + 1
        for log_offset, (where, position) in enumerate(part.positions.items(), first):
            self._done[where] = _Done(position, now_s)
            self._revisions[where] = log_offset
        self.held_back -= part.positions.keys()
        self._parts = [each for each in self._parts if each is not part]

    def refused(self, part: Part, conflicts: Sequence[Conflict]) -> bool:
        """Notes that the part is refused because of other stored offsets.

        Returns False if a retry cannot help.

        With REFUSE, offsets that would go back are left out. With FOLLOW, the next attempt expects
        the offsets that are stored now.
        """
        self.refusals += 1
        in_the_way = {each.topic_partition: each.revision for each in conflicts}
        if not in_the_way.keys() & part.positions.keys():
            return False
        if self._rewinds is Rewinds.FOLLOW:
            self._revisions.update(in_the_way)
            self._replace(part, part.positions)
            return self.refusals <= TURNS_MAX
        self.held_back.update(in_the_way)
        rest = {each: at for each, at in part.positions.items() if each not in in_the_way}
        self._replace(part, rest)
        return True

    def _to_commit(self, where: TopicPartition, at: Position, metadata: str) -> OffsetToCommit:
        if self._rewinds is Rewinds.REFUSE:
            return OffsetToCommit(
                at.offset, metadata=metadata, end_offset=at.end_offset, monotonic=True
            )
        stored = self._revisions[where]
        return OffsetToCommit(
            at.offset,
            metadata=metadata,
            end_offset=at.end_offset,
            expected_revision=stored,
            must_not_exist=stored is None,
        )

    def _cut(self, now_s: float) -> None:
        assert self.progress is not None, "`put` was called first"
        changed = [
            (where, position)
            for where, position in sorted(self.progress.positions.items())
            if self._is_due(where, position, now_s)
        ]
        self._parts = [
            self._part(dict(changed[first : first + PART_OFFSETS_MAX]))
            for first in range(0, len(changed), PART_OFFSETS_MAX)
        ]
        self._is_cut = True

    def _is_due(self, where: TopicPartition, position: Position, now_s: float) -> bool:
        done = self._done.get(where)
        return done is None or done.position != position or self._is_old(done, now_s)

    def _is_old(self, done: _Done, now_s: float) -> bool:
        return now_s - done.time_s >= self._refresh_s

    def _replace(self, part: Part, positions: Mapping[TopicPartition, Position]) -> None:
        """Replaces a part.

        The new part has its own name, because the server answers each name once.
        """
        place = [each is part for each in self._parts]
        if any(place):  # Otherwise a newer batch has replaced the part.
            self._parts[place.index(True)] = self._part(positions)
        self._parts = [each for each in self._parts if each.positions]

    def _part(self, positions: Mapping[TopicPartition, Position]) -> Part:
        assert self.progress is not None, "a part is one of a batch"
        self._cuts += 1
        run, batch = UUID(self.progress.run_id).hex, self.progress.batch_id
        return Part(request_id=f"{run}:{batch}:{self._cuts}", batch_id=batch, positions=positions)

"""What is to be committed of one streaming query, and what was: no thread, clock or server."""

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
"""Of one commit: with its metadata far below what one record batch may hold."""
TURNS_MAX: Final = 5
"""So often in a row a commit may lose a comparison before it counts as failed."""


def told_batch(query_id: str, batch_id: int) -> str:
    """The metadata of an offset that a streaming query has come to."""
    return json.dumps({"spark_query": query_id, "batch": batch_id}, separators=(",", ":"))


class Rewinds(StrEnum):
    """What becomes of a group when its query reads again what was committed already.

    REFUSE: an offset never goes back; the group waits until the query is there again. FOLLOW: it
    goes where the query is, and wherever somebody else sets it meanwhile, back to the query.
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
    """The newest batch of a query counts: offsets are absolute, so older ones may be skipped.

    Times are seconds of one steady clock.
    """

    def __init__(self, group_id: str, *, rewinds: Rewinds, refresh_s: float) -> None:
        """What does not change is committed again after `refresh_s`, so that it does not expire."""
        self.group_id = group_id
        self.due_s = 0.0  # Not before, since it failed.
        self.failures = 0  # In a row.
        self.refusals = 0  # In a row.
        self.committed_batch_id = -1
        self.held_back: set[TopicPartition] = set()  # Of these the group is further.
        self.progress: BatchProgress | None = None
        self._rewinds = rewinds
        self._refresh_s = refresh_s
        self._order = (-1, -1)
        self._is_cut = True
        self._parts: list[Part] = []
        self._cuts = 0
        self._done: dict[TopicPartition, _Done] = {}
        # By FOLLOW, what is stored by now; None: nothing is.
        self._revisions: dict[TopicPartition, int | None] = {}

    @property
    def is_behind(self) -> bool:
        """Whether there is something to commit, or to look through for it."""
        return not self._is_cut or bool(self._parts)

    @property
    def topics(self) -> frozenset[str]:
        """Those that the query reads."""
        return frozenset() if self.progress is None else self.progress.topics

    def is_before(self, progress: BatchProgress, run_number: int) -> bool:
        """Whether the batch is newer than all it knows."""
        return (run_number, progress.batch_id) > self._order

    def put(self, progress: BatchProgress, run_number: int) -> bool:
        """Takes a batch in place of what is not committed yet; False: it knows a newer one."""
        if not self.is_before(progress, run_number):
            return False
        self._order, self.progress = (run_number, progress.batch_id), progress
        self._is_cut, self._parts = False, []
        return True

    def refresh(self, now_s: float) -> bool:
        """Begins once more with the newest batch, if some of it was committed long ago."""
        if self.is_behind or not any(self._is_old(each, now_s) for each in self._done.values()):
            return False
        self._is_cut = False
        return True

    def drop(self) -> None:
        """Gives up what is not committed."""
        self._is_cut, self._parts = True, []

    def next_part(self, now_s: float) -> Part | None:
        """What to commit next; None: all is. It stays the next until it is committed."""
        if not self._is_cut:
            self._cut(now_s)
        return self._parts[0] if self._parts else None

    def unknown(self, part: Part) -> list[TopicPartition]:
        """Of which it has to be known what is stored, before they can be committed."""
        if self._rewinds is Rewinds.REFUSE:
            return []
        return [each for each in part.positions if each not in self._revisions]

    def learn(
        self, asked: Iterable[TopicPartition], stored: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """What a fetch of these said."""
        for where in asked:
            found = stored.get(where)
            self._revisions[where] = None if found is None else found.revision

    def offsets_of(self, part: Part) -> dict[TopicPartition, OffsetToCommit]:
        """The commit of a part, with what must hold for it."""
        assert self.progress is not None, "a part is one of a batch"
        metadata = told_batch(self.progress.query_id, part.batch_id)
        return {
            where: self._to_commit(where, position, metadata)
            for where, position in part.positions.items()
        }

    def committed(self, part: Part, revision: Revision, now_s: float) -> None:
        """The part is stored; `revision` is that of its last offset."""
        self.failures = self.refusals = 0
        first = revision.log_offset - len(part.positions) + 1
        for log_offset, (where, position) in enumerate(part.positions.items(), first):
            self._done[where] = _Done(position, now_s)
            self._revisions[where] = log_offset
        self.held_back -= part.positions.keys()
        self._parts = [each for each in self._parts if each is not part]

    def refused(self, part: Part, conflicts: Sequence[Conflict]) -> bool:
        """The part is not stored since others are; False: trying again does not help.

        By REFUSE what would go back is left out, by FOLLOW it goes on from what is stored.
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
        assert self.progress is not None, "what is to be cut was put"
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
        """Another part for one: with a name of its own, as the server answers each name once."""
        place = [each is part for each in self._parts]
        if any(place):  # Else a newer batch has come meanwhile.
            self._parts[place.index(True)] = self._part(positions)
        self._parts = [each for each in self._parts if each.positions]

    def _part(self, positions: Mapping[TopicPartition, Position]) -> Part:
        assert self.progress is not None, "a part is one of a batch"
        self._cuts += 1
        run, batch = UUID(self.progress.run_id).hex, self.progress.batch_id
        return Part(request_id=f"{run}:{batch}:{self._cuts}", batch_id=batch, positions=positions)

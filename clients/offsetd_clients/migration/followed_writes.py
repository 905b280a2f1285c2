"""The writes of mirrors and cutovers, in the lines of a journal.

A followed group is written many times. To keep the journal small, all those lines of a group can be
merged into one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from offsetd_clients import CommittedOffset, TopicPartition
from offsetd_clients.migration.target import milliseconds
from offsetd_clients.migration.values import FoundOffset

STEP = "mirror"


@attrs.frozen
class OwnWrite:
    """An offset that the migration has stored, with its revision in offsetd.

    `order` is the place of the source's write among all its writes. It is None if it is not known.
    """

    revision: int
    order: int | None


OwnWrites = dict[TopicPartition, OwnWrite]


@attrs.define
class _Group:
    """`begun` has puts whose outcome was not recorded; `cut_off` has earlier such puts."""

    attempt: int = 0
    own: OwnWrites = attrs.field(factory=dict)
    begun: Sequence[list[Any]] = ()
    cut_off: Sequence[list[Any]] = ()


class FollowedWrites:
    """The followed writes of all groups of one journal."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def of(self, group_id: str, stored: Mapping[TopicPartition, CommittedOffset]) -> OwnWrites:
        """The migration's writes to a group. `stored` is the group's present state in offsetd.

        A kill or a lost server may have cut off puts. Such a put has stored an offset if the stored
        offset, with its commit time, equals that of the source.
        """
        group = self._groups.get(group_id)
        if group is None:
            return {}
        own = dict(group.own)
        for topic, partition, offset, time_ms, order in (*group.cut_off, *group.begun):
            now = stored.get(TopicPartition(topic, partition))
            if now and (now.offset, milliseconds(now.commit_time)) == (offset, time_ms):
                own[TopicPartition(topic, partition)] = OwnWrite(now.revision, order)
        return own

    def begun(self, group_id: str, offsets: Sequence[FoundOffset]) -> dict[str, Any]:
        """The line to write before a put of these offsets, in order of topic and partition."""
        group = self._groups.get(group_id) or _Group()
        puts = [
            [each.topic, each.partition, each.offset, each.commit_time_ms, each.order]
            for each in offsets
        ]
        return {
            "step": STEP,
            "group": group_id,
            "attempt": group.attempt + 1,
            "details": {"puts": puts},
        }

    def note(self, document: Mapping[str, Any]) -> None:
        """Reads a line of the journal."""
        group = self._groups.setdefault(document["group"], _Group())
        group.attempt = document.get("attempt", group.attempt)
        for topic, partition, revision, order in document.get("own", ()):
            group.own[TopicPartition(topic, partition)] = OwnWrite(revision, order)
        if "details" in document:
            before = [each for each in group.begun if each not in group.cut_off]
            group.cut_off = [*group.cut_off, *before]
            group.begun = document["details"]["puts"]
        if "result" in document:
            _finish(group, document["result"]["revision"])

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yields lines with the same content as all lines that were read."""
        for group_id, group in self._groups.items():
            named = {"step": STEP, "group": group_id, "attempt": group.attempt}
            own = [
                [where.topic, where.partition, each.revision, each.order]
                for where, each in group.own.items()
            ]
            yield {**named, "own": own}
            for puts in (group.cut_off, group.begun):
                if puts:
                    yield {**named, "details": {"puts": puts}}


def _finish(group: _Group, last_revision: int | None) -> None:
    if last_revision is not None:
        first = last_revision - len(group.begun) + 1
        for revision, (topic, partition, _, _, order) in enumerate(group.begun, first):
            group.own[TopicPartition(topic, partition)] = OwnWrite(revision, order)
        stored = {(topic, partition) for topic, partition, *_ in group.begun}
        group.cut_off = [each for each in group.cut_off if (each[0], each[1]) not in stored]
    group.begun = ()

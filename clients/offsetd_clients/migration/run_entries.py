"""The notes of a run about a group in the journal: they are enough to undo it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import attrs

from offsetd_clients import CommittedOffset, Retention, TopicPartition
from offsetd_clients.migration.migration_journal import Entry
from offsetd_clients.migration.target import Stored, milliseconds

Image = list[Any]
"""A stored offset in a journal: offset, leader epoch, metadata, commit time, revision."""


@attrs.frozen
class Written:
    """An offset that a run stored: its revision, and the offset that was stored before.

    The revision is None if the run was killed, and the stored offset is not the run's.
    """

    partition: TopicPartition
    revision: int | None
    before: Image | None

    def is_as_before(self, stored: Stored) -> bool:
        """Whether it is undone, or was never stored."""
        now = image_of(stored.get(self.partition))
        if now is None or self.before is None:
            return now is self.before
        return now[:3] == self.before[:3]


def written_by(entry: Entry, stored: Stored) -> list[Written]:
    """All offsets that a run has stored, including those of earlier attempts that it continued."""
    carried = [
        Written(TopicPartition(topic, partition), revision, before)
        for topic, partition, revision, before in entry.details.get("carried", [])
    ]
    return [*carried, *(_of_done(entry) if entry.is_done else _of_killed(entry, stored))]


def carried_of(written: list[Written], puts: list[list[Any]]) -> list[list[Any]]:
    """The offsets of earlier attempts that the next attempt notes, but does not store itself."""
    own = {TopicPartition(topic, partition) for topic, partition, *_ in puts}
    return [
        [each.partition.topic, each.partition.partition, each.revision, each.before]
        for each in written
        if each.partition not in own
    ]


def others_of(stored: Stored, puts: list[list[Any]]) -> list[list[Any]]:
    """Topic, partition and revision of each offset that a run leaves unchanged."""
    own = {TopicPartition(topic, partition) for topic, partition, *_ in puts}
    return [
        [where.topic, where.partition, each.revision]
        for where, each in sorted(stored.items())
        if where not in own
    ]


def changed_others(entry: Entry, written: list[Written], stored: Stored) -> list[TopicPartition]:
    """Offsets of a group, other than the runs' own, that were written since the first run."""
    own = {each.partition: each.revision for each in written}
    others = entry.details.get("others")
    if others is None:  # An older version wrote the journal, without these notes.
        last = max((each for each in own.values() if each is not None), default=None)
        return [
            where
            for where, each in stored.items()
            if where not in own and last is not None and each.revision > last
        ]
    known = {TopicPartition(topic, partition): revision for topic, partition, revision in others}
    return [
        where
        for where, each in stored.items()
        if where not in own and known.get(where) != each.revision
    ]


def image_of(stored: CommittedOffset | None) -> Image | None:
    """A stored offset in the journal's form; None if none is stored."""
    if stored is None:
        return None
    return [
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        milliseconds(stored.commit_time),
        stored.revision,
    ]


def retention_text(retention: Retention) -> int | str | None:
    """A retention in the journal's form: milliseconds, "never", or None."""
    if isinstance(retention, timedelta):
        return round(retention.total_seconds() * 1000)
    return retention


def retention_of(kept: int | str | None) -> Retention:
    """The inverse of `retention_text`."""
    if isinstance(kept, int):
        return timedelta(milliseconds=kept)
    return "never" if kept == "never" else None


def _of_done(entry: Entry) -> Iterator[Written]:
    puts = entry.details["puts"]
    if puts:
        first = entry.result["revision"] - len(puts) + 1
        for revision, (topic, partition, _, before) in enumerate(puts, first):
            yield Written(TopicPartition(topic, partition), revision, before)


def _of_killed(entry: Entry, stored: Stored) -> Iterator[Written]:
    """Yields the offsets of a killed run.

    The run stored all its puts or none: equal stored offsets are its own.
    """
    for topic, partition, offset, before in entry.details["puts"]:
        now = stored.get(TopicPartition(topic, partition))
        is_ours = now is not None and now.offset == offset
        if now is not None and before is not None and now.revision == before[-1]:
            is_ours = False
        revision = now.revision if now is not None and is_ours else None
        yield Written(TopicPartition(topic, partition), revision, before)

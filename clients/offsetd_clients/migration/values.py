"""The content of a source, as plain values, one group at a time."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import attrs

from offsetd_clients import TopicPartition

OFFSET_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1


class MigrationError(Exception):
    """A step cannot continue. The text names the problem and its place."""


class SourceFailed(MigrationError):
    """The source as a whole cannot be read."""


class ProblemKind(StrEnum):
    """The reason why something in a source cannot be moved."""

    UNREADABLE = "unreadable"  # Its access control list forbids reading.
    VANISHED = "vanished"  # It was listed, but no longer existed when it was read.
    BAD_VALUE = "bad-value"
    BAD_NAME = "bad-name"
    # Kafka 0.7: a position in bytes, which cannot be converted to a message offset.
    BYTE_POSITION = "byte-position"
    DUPLICATE = "duplicate"
    MIGRATED = "migrated"  # It has the mark of an earlier migration.
    UNSUPPORTED = "unsupported"


@attrs.frozen(kw_only=True)
class Problem:
    """One thing that cannot be moved. `group_id` is None if it belongs to no group."""

    kind: ProblemKind
    where: str
    detail: str
    group_id: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.detail}"


@attrs.frozen(kw_only=True)
class FoundOffset:
    """An offset of a source: the next offset to consume.

    `place` is the place where it was read (the path of a znode). `version` is the version that a
    write back must find there. `order` is the position of its last change among all changes of the
    source (mzxid): later changes have larger numbers.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    commit_time_ms: int | None = None
    place: str = ""
    version: int | None = None
    order: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@attrs.frozen(kw_only=True)
class FoundGroup:
    """A group of a source. `owners`: its live members, or None if the source does not know them."""

    group_id: str
    offsets: tuple[FoundOffset, ...]
    owners: tuple[str, ...] | None = ()
    problems: tuple[Problem, ...] = ()


@attrs.frozen(kw_only=True)
class PlannedGroup:
    """A group of a plan, with its offsets by topic and partition.

    `group_id` is its id in offsetd, `source_group_id` its id at the source. A group with problems
    is incomplete: see `RunOptions.allow_partial`.
    """

    source_group_id: str
    group_id: str
    offsets: tuple[FoundOffset, ...]
    owners: tuple[str, ...] | None = ()
    problems: tuple[Problem, ...] = ()

    @property
    def last_commit_time_ms(self) -> int | None:
        times = [each.commit_time_ms for each in self.offsets if each.commit_time_ms is not None]
        return max(times, default=None)


@attrs.frozen(kw_only=True)
class SourceDescription:
    """The notes of a plan about its source, in order to open it again. `options` is JSON."""

    kind: str
    address: str
    options: Mapping[str, Any] = attrs.field(factory=dict)


class Source(Protocol):
    """A store of offsets to migrate from."""

    @property
    def description(self) -> SourceDescription: ...

    def groups(self) -> Iterator[FoundGroup | Problem]:
        """Yields each group once, and problems of no group. Raises SourceFailed."""

    def read_again(self, group_ids: Sequence[str]) -> Iterator[FoundGroup]:
        """Yields these groups as they are now, in this order. Raises SourceFailed."""


def without_doubles(
    offsets: Sequence[FoundOffset], group_id: str
) -> tuple[tuple[FoundOffset, ...], tuple[Problem, ...]]:
    """Returns the offsets by topic and partition.

    A partition with several offsets gives a problem instead.
    """
    by_partition: dict[tuple[str, int], list[FoundOffset]] = {}
    for each in offsets:
        by_partition.setdefault((each.topic, each.partition), []).append(each)
    problems = [
        Problem(
            kind=ProblemKind.DUPLICATE,
            where=found[0].place or f"{topic}:{partition}",
            detail=f"{topic}:{partition} is there {len(found)} times: "
            + ", ".join(each.place or str(each.offset) for each in found),
            group_id=group_id,
        )
        for (topic, partition), found in by_partition.items()
        if len(found) > 1
    ]
    single = [found[0] for _, found in sorted(by_partition.items()) if len(found) == 1]
    return tuple(single), tuple(problems)

"""What is found where offsets come from: plain values, one group at a time."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import attrs

from offsetd_clients import TopicPartition

OFFSET_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1


class MigrationError(Exception):
    """A step cannot go on; says what is wrong, and where."""


class SourceFailed(MigrationError):
    """The source as a whole cannot be read."""


class ProblemKind(StrEnum):
    """Why something of a source cannot be taken over."""

    UNREADABLE = "unreadable"  # Its access list says no.
    VANISHED = "vanished"  # It was listed, and is gone.
    BAD_VALUE = "bad-value"
    BAD_NAME = "bad-name"
    BYTE_POSITION = "byte-position"  # Kafka 0.7: bytes, which no message offset can be made of.
    DUPLICATE = "duplicate"
    MIGRATED = "migrated"  # It has a mark of an earlier move.
    UNSUPPORTED = "unsupported"


@attrs.frozen(kw_only=True)
class Problem:
    """One thing that cannot be taken over; `group_id` None: it belongs to no group."""

    kind: ProblemKind
    where: str
    detail: str
    group_id: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.detail}"


@attrs.frozen(kw_only=True)
class FoundOffset:
    """An offset as its source has it: the position to go on from.

    `place` is where it was read (a znode's path), `version` what whoever writes back has to find
    there, `order` the place's last change among all of the source's (mzxid): later is larger.
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
    """A group as its source has it. `owners`: who is alive; None: the source cannot tell."""

    group_id: str
    offsets: tuple[FoundOffset, ...]
    owners: tuple[str, ...] | None = ()
    problems: tuple[Problem, ...] = ()


@attrs.frozen(kw_only=True)
class PlannedGroup:
    """A group of a plan: `group_id` here, `source_group_id` there; offsets by topic and partition.

    A group with problems is not whole: see `RunOptions.allow_partial`.
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
    """What a plan keeps of its source, enough to find it again. `options` is JSON."""

    kind: str
    address: str
    options: Mapping[str, Any] = attrs.field(factory=dict)


class Source(Protocol):
    """Where offsets come from."""

    @property
    def description(self) -> SourceDescription: ...

    def groups(self) -> Iterator[FoundGroup | Problem]:
        """Each group once, and what belongs to none. Raises SourceFailed."""

    def read_again(self, group_ids: Sequence[str]) -> Iterator[FoundGroup]:
        """Those groups as they are now, in this order. Raises SourceFailed."""


def without_doubles(
    offsets: Sequence[FoundOffset], group_id: str
) -> tuple[tuple[FoundOffset, ...], tuple[Problem, ...]]:
    """Offsets by topic and partition; of those that name the same partition none, but a problem."""
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

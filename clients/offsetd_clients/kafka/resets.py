"""Where a partition of Kafka goes on when what was committed is not there: pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_clients import TopicPartition

OutOfRangeRule: TypeAlias = Literal["earliest", "latest", "error"]
"""What becomes of a position that Kafka does not have: the partition's first offset, its end, or
`PositionGone`."""

RULES: Final = ("earliest", "latest", "error")


class Why(StrEnum):
    """What happened to a position."""

    BEFORE_BEGIN = "before-begin"  # Retention took what was there, or somebody deleted it.
    BEHIND_END = "behind-end"  # The topic was made anew, or lost its end.
    TRUNCATED = "truncated"  # Kafka has another history by now, as leader epochs tell.


@attrs.frozen(kw_only=True)
class PositionReset:
    """A partition does not go on where it was: `offset` None: it does not go on at all."""

    topic_partition: TopicPartition
    why: Why
    position: int
    earliest: int
    latest: int
    offset: int | None

    def __str__(self) -> str:
        has = f"{self.topic_partition}: position {self.position} is {self.why}"
        range_text = f"Kafka has {self.earliest} to {self.latest}"
        where = "" if self.offset is None else f"; it goes on at {self.offset}"
        return f"{has}, {range_text}{where}"


class PositionGone(LookupError):
    """Kafka does not have what was to be read next, and the rule is "error".

    `resets` has each partition that it is so with. `seek` each of them, or make a consumer with
    another rule; what is committed stays.
    """

    def __init__(self, resets: Sequence[PositionReset]) -> None:
        super().__init__("; ".join(map(str, resets)))
        self.resets = tuple(resets)


class ConsumerMisconfigured(ValueError):
    """A setting for librdkafka that would have Kafka keep offsets, or reset them silently."""


def reset_of(
    topic_partition: TopicPartition,
    position: int,
    *,
    earliest: int,
    latest: int,
    rule: OutOfRangeRule,
    is_truncated: bool = False,
) -> PositionReset | None:
    """What becomes of a position; None: it is there, and stays."""
    if position < earliest:
        why = Why.BEFORE_BEGIN
    elif position > latest:
        why = Why.BEHIND_END
    elif is_truncated:
        why = Why.TRUNCATED
    else:
        return None
    return PositionReset(
        topic_partition=topic_partition,
        why=why,
        position=position,
        earliest=earliest,
        latest=latest,
        offset={"earliest": earliest, "latest": latest, "error": None}[rule],
    )


def librdkafka_config(config: Mapping[str, object], group_id: str) -> dict[str, object]:
    """`config` for a consumer that keeps no offsets at Kafka, and says when a position is gone.

    Raises ConsumerMisconfigured where `config` says otherwise.
    """
    if str(config.get("enable.auto.commit", "false")).lower() not in ("false", "f", "0"):
        raise ConsumerMisconfigured("enable.auto.commit: offsets are kept here, not at Kafka")
    if config.get("auto.offset.reset", "error") != "error":
        raise ConsumerMisconfigured(
            "auto.offset.reset: say `start` for what was never committed, and `out_of_range`"
        )
    if config.get("group.id", group_id) != group_id:
        raise ConsumerMisconfigured(f"group.id: the group is {group_id!r}; leave it out")
    return {
        **config,
        "group.id": group_id,  # librdkafka asks for one. It is never joined, nor committed to.
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }

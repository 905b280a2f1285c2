"""The rule for a partition whose committed offset Kafka does not have. No I/O."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_clients import TopicPartition

OutOfRangeRule: TypeAlias = Literal["earliest", "latest", "error"]
"""The rule for a position that Kafka does not have.

The partition continues at its first offset ("earliest") or at its end ("latest"), or `PositionGone`
is raised ("error").
"""

RULES: Final = ("earliest", "latest", "error")


class Why(StrEnum):
    """The reason why Kafka does not have a position."""

    BEFORE_BEGIN = "before-begin"  # Retention deleted the messages, or an administrator did.
    BEHIND_END = "behind-end"  # The topic was recreated, or lost its last messages.
    TRUNCATED = "truncated"  # Kafka has another history now, as the leader epochs show.


@attrs.frozen(kw_only=True)
class PositionReset:
    """A partition cannot continue at its position. `offset` is None if it does not continue."""

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
    """Kafka does not have the next offset, and the rule is "error".

    `resets` has every partition with this problem. Call `seek` for each of them and continue, or
    make a consumer with another rule. Until then the committed offsets stay.
    """

    def __init__(self, resets: Sequence[PositionReset]) -> None:
        super().__init__("; ".join(map(str, resets)))
        self.resets = tuple(resets)


class ConsumerMisconfigured(ValueError):
    """A librdkafka setting that would store offsets in Kafka, or reset them silently."""


def reset_of(
    topic_partition: TopicPartition,
    position: int,
    *,
    earliest: int,
    latest: int,
    rule: OutOfRangeRule,
    is_truncated: bool = False,
) -> PositionReset | None:
    """The reset of a position. None if Kafka has the position: then it stays."""
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
    """`config` for a consumer that stores no offsets in Kafka, and reports missing positions.

    Raises ConsumerMisconfigured if `config` contradicts that.
    """
    if str(config.get("enable.auto.commit", "false")).lower() not in ("false", "f", "0"):
        raise ConsumerMisconfigured("enable.auto.commit: offsetd keeps the offsets, not Kafka")
    if config.get("auto.offset.reset", "error") != "error":
        raise ConsumerMisconfigured(
            "auto.offset.reset: say `start` for what was never committed, and `out_of_range`"
        )
    if config.get("group.id", group_id) != group_id:
        raise ConsumerMisconfigured(f"group.id: the group is {group_id!r}; leave it out")
    return {
        **config,
        # librdkafka requires one. The consumer never joins the group, and commits nothing to it.
        "group.id": group_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }

"""`--topic TOPIC[:P,…]`: the topics and partitions whose offsets a command prints."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Self, TypeVar

import attrs
import typer

from offsetd_clients import TopicPartition
from offsetd_clients.cli.arguments.reset_targets import parse_topics

Value = TypeVar("Value")
_ASKED_TOPICS_MAX = 100

ShownTopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:P,…]", help="Only this topic, or these partitions; repeatable."
    ),
]


@attrs.frozen
class TopicChoice:
    """Whole topics, and partitions. Without either, it chooses everything."""

    topics: Sequence[str] = ()
    partitions: Sequence[TopicPartition] = ()

    @classmethod
    def of(cls, texts: Iterable[str] | None) -> Self:
        """Reads the options. Raises typer.BadParameter."""
        return cls(*parse_topics(texts or ()))

    def __bool__(self) -> bool:
        return bool(self.topics or self.partitions)

    def __contains__(self, where: TopicPartition) -> bool:
        return not self or where.topic in self.topics or where in self.partitions

    def __str__(self) -> str:
        return ", ".join(map(str, [*self.topics, *self.partitions]))

    def asked_topics(self) -> list[str]:
        """The topics that a list of groups can be narrowed to; none if there are too many."""
        named = {*self.topics, *(where.topic for where in self.partitions)}
        return sorted(named) if len(named) <= _ASKED_TOPICS_MAX else []

    def of_offsets(self, offsets: Mapping[TopicPartition, Value]) -> Mapping[TopicPartition, Value]:
        """The chosen part of `offsets`."""
        return {where: offset for where, offset in offsets.items() if where in self}

    def reads_any(self, topics: Iterable[str], partitions: Iterable[TopicPartition]) -> bool:
        """Whether a member that subscribes to these topics, or owns these partitions, matches."""
        return (
            not self
            or any(topic in self.topics for topic in topics)
            or any(where in self for where in partitions)
        )

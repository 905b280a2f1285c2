"""A change that was chosen in a form, and what it does or would do."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

import attrs

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.change_values import OffsetChange
from offsetd_clients.values import Revision

Cell: TypeAlias = str | int | None
Row: TypeAlias = tuple[Cell, ...]
Fields: TypeAlias = Mapping[str, str]


@attrs.frozen(kw_only=True)
class Outcome:
    """What a change did, or would do. `revision` is None if it only validated."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    summary: str
    notes: tuple[str, ...] = ()
    revision: Revision | None = None
    is_nothing: bool = False

    @property
    def digest(self) -> str:
        """What a form brings back to say what its viewer has seen."""
        seen = repr((self.columns, self.rows, self.summary))
        return hashlib.sha256(seen.encode()).hexdigest()


@attrs.frozen(kw_only=True)
class Terms:
    """How a call is made: only to see, or to change, with a reason."""

    validate_only: bool = True
    reason: str = ""
    request_id: str | None = None


@attrs.frozen(kw_only=True)
class Change:
    """A chosen change. `words` and `piped` are those of the command that does the same."""

    group_id: str
    words: tuple[str, ...]
    carry_out: Callable[[AsyncOffsetClient, Terms], Awaitable[Outcome]]
    piped: str = ""
    takes_execute: bool = False
    about: tuple[str, ...] = ()


Reader: TypeAlias = Callable[[AsyncOffsetClient, str, Fields], Awaitable[Change]]
Choices: TypeAlias = Callable[[AsyncOffsetClient, str, Fields], Awaitable[dict[str, object]]]


@attrs.frozen(kw_only=True)
class Wizard:
    """One kind of change: the fields of its form, what may be chosen, and how it is read."""

    path: str
    title: str
    method: str
    fields: tuple[str, ...]
    read: Reader
    choices: Choices
    is_of_group: bool = True
    is_live: bool = False


async def no_choices(_: AsyncOffsetClient, __: str, ___: Fields) -> dict[str, object]:
    """For a form that needs nothing from the server."""
    return {}


def offset_rows(changes: Iterable[OffsetChange]) -> tuple[Row, ...]:
    """Topic, partition, and the offset before and after, of each changed offset."""
    return tuple(
        (each.topic_partition.topic, each.topic_partition.partition, each.before, each.after)
        for each in changes
    )


def topic_words(topics: Iterable[str]) -> list[str]:
    """The options of a command that name these topics."""
    return [word for topic in topics for word in ("--topic", topic)]


def lines(fields: Fields, name: str) -> list[str]:
    """The lines of a field that are not empty."""
    return [line for line in fields.get(name, "").split("\n") if line]

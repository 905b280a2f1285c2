"""Selects the groups and topics that are moved, and their new names."""

import re
from collections.abc import Collection, Mapping, Sequence

import attrs

from offsetd_clients.migration.values import MigrationError


class BadSelection(MigrationError):
    """A pattern or a renaming is invalid."""


def _patterns(texts: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    try:
        return tuple(re.compile(text) for text in texts)
    except re.error as error:
        raise BadSelection(f"{error.pattern!r} is not a regular expression: {error}") from None


@attrs.frozen(kw_only=True)
class Selection:
    """Regular expressions that must match whole names. Without patterns to include, all match.

    An excluded name is never taken. `renames` maps the groups that get another id to their new ids.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    include_topics: tuple[str, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    renames: Mapping[str, str] = attrs.field(factory=dict)
    _compiled: tuple[tuple[re.Pattern[str], ...], ...] = attrs.field(
        init=False, eq=False, repr=False
    )

    def __attrs_post_init__(self) -> None:
        texts = (self.include, self.exclude, self.include_topics, self.exclude_topics)
        object.__setattr__(self, "_compiled", tuple(map(_patterns, texts)))
        if "" in self.renames or "" in self.renames.values():
            raise BadSelection("a group's id is not empty")

    def takes(self, group_id: str) -> bool:
        """Whether a group is moved, by its id at the source."""
        return _is_taken(group_id, *self._compiled[:2])

    def takes_topic(self, topic: str) -> bool:
        """Whether offsets of a topic are moved."""
        return _is_taken(topic, *self._compiled[2:])

    def target(self, group_id: str) -> str:
        """The id in offsetd of a group of the source."""
        return self.renames.get(group_id, group_id)

    def unmatched(self, group_ids: Collection[str], topics: Collection[str]) -> list[str]:
        """The patterns and renamings that matched nothing.

        `group_ids` and `topics` are those that were taken, by their names at the source.
        """
        include, _, include_topics, _ = self._compiled
        return [
            *(f"group {each.pattern!r}" for each in include if not _finds(each, group_ids)),
            *(f"topic {each.pattern!r}" for each in include_topics if not _finds(each, topics)),
            *(f"group {each!r} to rename" for each in self.renames if each not in group_ids),
        ]


def parse_renames(texts: Sequence[str]) -> dict[str, str]:
    """Reads `OLD=NEW`, split at the last `=`. Raises BadSelection."""
    renames: dict[str, str] = {}
    for text in texts:
        old, sign, new = text.rpartition("=")
        if not (sign and old and new):
            raise BadSelection(f"{text!r} is not OLD=NEW")
        if renames.setdefault(old, new) != new:
            raise BadSelection(f"group {old!r} gets two names")
    return renames


def _finds(pattern: re.Pattern[str], names: Collection[str]) -> bool:
    return any(pattern.fullmatch(name) for name in names)


def _is_taken(
    name: str, include: tuple[re.Pattern[str], ...], exclude: tuple[re.Pattern[str], ...]
) -> bool:
    if any(pattern.fullmatch(name) for pattern in exclude):
        return False
    return not include or any(pattern.fullmatch(name) for pattern in include)

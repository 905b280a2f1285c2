"""The options of `spark.read.format("offsetd")`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import attrs

from offsetd_pipeline.server_options import SERVER_OPTIONS, ServerOptions, flag
from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

_Word = TypeVar("_Word", bound=StrEnum)

RANGE_BYTES: Final = 64 << 20
CHOICES: Final = frozenset(("groups", "group_prefix", "topics"))
"""The options that select rows, batch or stream."""
_SPARKS_OWN: Final = "paths"  # Spark's own option, which `load` sets for a list of paths.
_NAMES: Final = frozenset(
    (
        "path",
        _SPARKS_OWN,
        *SERVER_OPTIONS,
        *CHOICES,
        "mode",
        "on_damage",
        "columns",
        "range_bytes",
        "offsets_partitions",
        "push_filters",
    )
)
_SERVER_MODES: Final = (Mode.CURRENT, Mode.HISTORY)
_WITHOUT_TOPIC: Final = (Mode.GROUPS,)
_WITHOUT_GROUP: Final = (Mode.DAMAGE,)


class OnDamage(StrEnum):
    """The action for a batch that is not valid."""

    FAIL = "fail"
    SKIP = "skip"


@attrs.frozen(kw_only=True)
class Chosen:
    """The selected groups (by name or prefix) and topics. An empty field selects all."""

    groups: tuple[str, ...] = ()
    group_prefix: str = ""
    topics: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Chosen:
        """Reads a reader's options, batch or stream. Raises ValueError."""
        chosen = cls(
            groups=list_of(given.get("groups", "")),
            group_prefix=given.get("group_prefix", ""),
            topics=list_of(given.get("topics", "")),
        )
        if chosen.groups and chosen.group_prefix:
            raise ValueError("say one of groups and group_prefix")
        return chosen

    def check(self, mode: Mode) -> None:
        """Raises ValueError if the table has no such rows to select."""
        if self.topics and mode in (*_WITHOUT_TOPIC, *_WITHOUT_GROUP):
            raise ValueError(f"mode {mode} has no topics to choose")
        if (self.groups or self.group_prefix) and mode in _WITHOUT_GROUP:
            raise ValueError(f"mode {mode} has no groups to choose")


@attrs.frozen(kw_only=True)
class ReadOptions:
    """The options of a read. Either `paths` or `server` is set.

    `columns`: the columns of the table, in this order; if empty, all.
    `range_bytes`: the approximate number of bytes of the log that one task reads.
    `offsets_partitions`: the number of partitions of `__consumer_offsets`, if the folder lacks it.
    """

    paths: tuple[str, ...] = ()
    server: ServerOptions | None = None
    mode: Mode = Mode.CURRENT
    on_damage: OnDamage = OnDamage.FAIL
    columns: tuple[str, ...] = ()
    range_bytes: int = RANGE_BYTES
    offsets_partitions: int | None = None
    chosen: Chosen = attrs.field(factory=Chosen)
    push_filters: bool = False

    @property
    def has_folder_column(self) -> bool:
        """Whether rows name their folder, because several folders are read."""
        return len(self.paths) > 1

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Reads a reader's options. Raises ValueError, which names valid options."""
        given = {name.lower(): value for name, value in options.items()}
        check_any(given)
        unknown = given.keys() - _NAMES
        if unknown:
            raise ValueError(
                f"no option {min(unknown)!r}: there are {', '.join(sorted(_NAMES - {_SPARKS_OWN}))}"
            )
        paths, server = paths_of(given), given.get("server")
        if bool(paths) == bool(server):
            raise ValueError("set either `path` (a data folder) or `server` (host:port), not both")
        found = cls(
            paths=paths,
            server=ServerOptions.of(given) if server else None,
            mode=word(Mode, "mode", given.get("mode", Mode.CURRENT)),
            on_damage=word(OnDamage, "on_damage", given.get("on_damage", OnDamage.FAIL)),
            columns=list_of(given.get("columns", "")),
            range_bytes=count_of("range_bytes", given.get("range_bytes", str(RANGE_BYTES))),
            offsets_partitions=(
                count_of("offsets_partitions", given["offsets_partitions"])
                if "offsets_partitions" in given
                else None
            ),
            chosen=Chosen.of(given),
            push_filters=flag("push_filters", given.get("push_filters", "false")),
        )
        found.chosen.check(found.mode)
        if server and found.mode not in _SERVER_MODES:
            told = " and ".join(_SERVER_MODES)
            raise ValueError(f"mode {found.mode} needs a folder; a server has only {told}")
        return found


class NamedTable(NamedTuple):
    """The table that the options name, and its columns, for any reader."""

    mode: Mode
    columns: tuple[str, ...]
    has_folder_column: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> NamedTable:
        """Reads a reader's options, batch or stream. Raises ValueError."""
        given = {name.lower(): value for name, value in options.items()}
        return cls(
            word(Mode, "mode", given.get("mode", Mode.CURRENT)),
            list_of(given.get("columns", "")),
            len(paths_of(given)) > 1,
        )


def check_any(given: Mapping[str, str]) -> None:
    """Raises ValueError if there are no options.

    Spark does not pass on the options of a catalog's table.
    """
    if not given:
        raise ValueError(
            "no option was given: say path (a data folder) or server (host:port). Spark does not"
            " hand on the options of CREATE TABLE ... USING offsetd: make a view instead, by"
            " CREATE TEMPORARY VIEW name USING offsetd OPTIONS (path '...')"
        )


def paths_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """The paths of `load(path)`, or of `load([path, ...])`, which Spark passes as a JSON list."""
    several = json.loads(given.get(_SPARKS_OWN) or "[]")
    return tuple(filter(None, [given.get("path"), *several]))


def word(words: type[_Word], name: str, text: str) -> _Word:
    """Reads an option with a fixed set of words. Raises ValueError."""
    try:
        return words(text.lower())
    except ValueError:
        raise ValueError(f"{name} is one of {', '.join(words)}, not {text!r}") from None


def list_of(text: str) -> tuple[str, ...]:
    """Reads an option with a list: separated by commas, or in JSON. Raises ValueError."""
    if not text.startswith("["):
        return tuple(filter(None, map(str.strip, text.split(","))))
    try:
        found = json.loads(text)
    except ValueError:
        found = [None]
    if not all(isinstance(each, str) for each in found):
        raise ValueError(f"a list is text by comma, or in JSON, not {text!r}")
    return tuple(found)


def count_of(name: str, text: str) -> int:
    """Reads an option with a whole number above 0. Raises ValueError."""
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"{name} is a whole number above 0, not {text!r}")
    return count

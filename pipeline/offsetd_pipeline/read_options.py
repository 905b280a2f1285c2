"""The options of `spark.read.format("offsetd")`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

_Word = TypeVar("_Word", bound=StrEnum)

RANGE_BYTES: Final = 64 << 20
_SPARKS_OWN: Final = "paths"  # What `load` makes of a list.
_NAMES: Final = frozenset(
    (
        "path",
        _SPARKS_OWN,
        "server",
        "mode",
        "on_damage",
        "columns",
        "range_bytes",
        "offsets_partitions",
    )
)
_SERVER_MODES: Final = (Mode.CURRENT,)


class OnDamage(StrEnum):
    """What is done about a batch that is not valid."""

    FAIL = "fail"
    SKIP = "skip"


@attrs.frozen(kw_only=True)
class ReadOptions:
    """What is read, and how. One of `paths` and `server` is set.

    `columns`: of the table, in this order; none: all. `range_bytes`: how much of the log a task
    reads, about. `offsets_partitions`: how many partitions `__consumer_offsets` has, where the
    folder does not say it.
    """

    paths: tuple[str, ...] = ()
    server: str | None = None
    mode: Mode = Mode.CURRENT
    on_damage: OnDamage = OnDamage.FAIL
    columns: tuple[str, ...] = ()
    range_bytes: int = RANGE_BYTES
    offsets_partitions: int | None = None

    @property
    def has_folder_column(self) -> bool:
        """Whether rows say which of several folders they are of."""
        return len(self.paths) > 1

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """From the options of a reader. Raises ValueError, which says what can be."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = given.keys() - _NAMES
        if unknown:
            raise ValueError(
                f"no option {min(unknown)!r}: there are {', '.join(sorted(_NAMES - {_SPARKS_OWN}))}"
            )
        paths, server = _paths(given), given.get("server")
        if bool(paths) == bool(server):
            raise ValueError("say one of path (a data folder) and server (host:port)")
        found = cls(
            paths=paths,
            server=server or None,
            mode=word(Mode, "mode", given.get("mode", Mode.CURRENT)),
            on_damage=word(OnDamage, "on_damage", given.get("on_damage", OnDamage.FAIL)),
            columns=tuple(filter(None, map(str.strip, given.get("columns", "").split(",")))),
            range_bytes=_count("range_bytes", given.get("range_bytes", str(RANGE_BYTES))),
            offsets_partitions=(
                _count("offsets_partitions", given["offsets_partitions"])
                if "offsets_partitions" in given
                else None
            ),
        )
        if server and found.mode not in _SERVER_MODES:
            raise ValueError(f"mode {found.mode} is read from a folder; a server gives current")
        return found


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """Of `load(path)`, or of `load([path, ...])`, which Spark tells as a list in JSON."""
    several = json.loads(given.get(_SPARKS_OWN) or "[]")
    return tuple(filter(None, [given.get("path"), *several]))


def word(words: type[_Word], name: str, text: str) -> _Word:
    """An option that is one of a few words. Raises ValueError."""
    try:
        return words(text.lower())
    except ValueError:
        raise ValueError(f"{name} is one of {', '.join(words)}, not {text!r}") from None


def _count(name: str, text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"{name} is a whole number above 0, not {text!r}")
    return count

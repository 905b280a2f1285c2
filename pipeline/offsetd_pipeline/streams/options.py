"""The options of `spark.readStream.format("offsetd")`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from offsetd_pipeline.read_options import (
    CHOICES,
    RANGE_BYTES,
    Chosen,
    OnDamage,
    check_any,
    count_of,
    list_of,
    paths_of,
    word,
)
from offsetd_pipeline.server_options import SERVER_OPTIONS, ServerOptions, flag
from offsetd_pipeline.tables import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_OWN: Final = frozenset(
    (
        "path",
        "mode",
        "on_damage",
        "columns",
        "range_bytes",
        "starting_offsets",
        "max_records_per_trigger",
        "fail_on_data_loss",
    )
)
_NAMES: Final = _OWN | CHOICES | SERVER_OPTIONS
_SPARKS_OWN: Final = "paths"


@attrs.frozen(kw_only=True)
class StreamOptions:
    """The source, start and limits of a stream. Either `path` or `server` is set.

    `starting_offsets`: EARLIEST, LATEST, or the positions at which a batch ended.
    """

    mode: Mode
    path: str | None = None
    server: ServerOptions | None = None
    on_damage: OnDamage = OnDamage.FAIL
    columns: tuple[str, ...] = ()
    range_bytes: int = RANGE_BYTES
    starting_offsets: str | Mapping[str, Any] = EARLIEST
    records_per_trigger_max: int | None = None
    fails_on_loss: bool = True
    chosen: Chosen = attrs.field(factory=Chosen)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """Reads a reader's options. Raises ValueError, which names valid options."""
        given = {name.lower(): value for name, value in options.items()}
        check_any(given)
        unknown = given.keys() - _NAMES - {_SPARKS_OWN}
        if unknown:
            raise ValueError(
                f"no option {min(unknown)!r} of a stream: there are {', '.join(sorted(_NAMES))}"
            )
        paths, server = paths_of(given), given.get("server")
        if bool(paths) == bool(server):
            raise ValueError("set either `path` (a data folder) or `server` (host:port), not both")
        if len(paths) > 1:
            raise ValueError("a stream reads one folder: begin one for each")
        limit = given.get("max_records_per_trigger")
        return cls(
            mode=_mode(given, has_server=bool(server)),
            path=paths[0] if paths else None,
            server=ServerOptions.of(given) if server else None,
            on_damage=word(OnDamage, "on_damage", given.get("on_damage", OnDamage.FAIL)),
            columns=list_of(given.get("columns", "")),
            range_bytes=count_of("range_bytes", given.get("range_bytes", str(RANGE_BYTES))),
            starting_offsets=_starting_offsets(given.get("starting_offsets", EARLIEST)),
            records_per_trigger_max=(
                None if limit is None else count_of("max_records_per_trigger", limit)
            ),
            fails_on_loss=flag("fail_on_data_loss", given.get("fail_on_data_loss", "true")),
            chosen=Chosen.of(given),
        )


def _mode(given: Mapping[str, str], *, has_server: bool) -> Mode:
    mode = word(Mode, "mode", given.get("mode", Mode.CURRENT))
    allowed = (Mode.HISTORY,) if has_server else (Mode.HISTORY, Mode.RAW)
    if mode not in allowed:
        source = "a server" if has_server else "a folder"
        raise ValueError(f"a stream of {source} has mode {' or '.join(allowed)}, not {mode}")
    return mode


def _starting_offsets(text: str) -> str | Mapping[str, Any]:
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found:
        raise ValueError(
            f'starting_offsets is {EARLIEST}, {LATEST} or positions ({{"0": 120, ...}}, or'
            f' {{"token": "..."}} of a server), not {text!r}'
        )
    return found

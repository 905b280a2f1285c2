"""The options of `audit`: its scope, and the thresholds of its findings."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.arguments.reset_targets import parse_time
from offsetd_clients.cli.arguments.time_spans import NEVER, duration_text, parse_duration

from offsetd_pipeline.audit import AuditScope, ExpiryBase, Thresholds
from offsetd_pipeline.read_options import OnDamage

_DEFAULTS: Final = Thresholds()
_RATIO: Final = {"min": 0.0, "max": 1.0}
_FOREVER_MS: Final = 1 << 53  # Later than any time that a table can hold.


def parsed_now(text: str | None) -> datetime:
    """Reads a time. If `text` is None, returns the present time."""
    return datetime.now(UTC) if text is None else parse_time(text).astimezone(UTC)


def _span_ms(text: str) -> int:
    if text == NEVER:
        return _FOREVER_MS
    try:
        return parse_duration(text) // timedelta(milliseconds=1)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _time(text: str | None) -> datetime | None:
    return None if text is None else parse_time(text).astimezone(UTC)


def _scope(
    *,
    folder: str,
    group: list[str] | None,
    group_prefix: str,
    since: str | None,
    until: str | None,
    on_damage: OnDamage,
    offsets_partitions: int | None,
) -> AuditScope:
    return AuditScope(
        folder=folder,
        groups=tuple(group or ()),
        group_prefix=group_prefix,
        since=_time(since),
        until=_time(until),
        on_damage=on_damage,
        offsets_partitions=offsets_partitions,
    )


def _thresholds(*, compaction_lag: str | None, **given: Any) -> Thresholds:
    spans: dict[str, Any] = {f"{name}_ms": _span_ms(given.pop(name)) for name in _SPANS}
    lag_ms = None if compaction_lag is None else _span_ms(compaction_lag)
    return Thresholds(compaction_lag_ms=lag_ms, **given, **spans)


def _option(name: str, text: str, **more: Any) -> Any:
    return typer.Option(name, help=text, **more)


def _span(name: str, text: str) -> Any:
    return Annotated[str, _option(name, text, metavar="TIME")]


def _span_default(name: str) -> str:
    return duration_text(timedelta(milliseconds=getattr(_DEFAULTS, f"{name}_ms")))


_SCOPE_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "group": (
        Annotated[
            list[str] | None, _option("--group", "Only this group; repeatable.", metavar="GROUP")
        ],
        None,
    ),
    "group_prefix": (
        Annotated[
            str, _option("--group-prefix", "Also groups whose id has this prefix.", metavar="TEXT")
        ],
        "",
    ),
    "since": (
        Annotated[
            str | None, _option("--since", "Only records from this time on.", metavar="TIME")
        ],
        None,
    ),
    "until": (
        Annotated[str | None, _option("--until", "Only records before this time.", metavar="TIME")],
        None,
    ),
    "on_damage": (
        Annotated[OnDamage, _option("--on-damage", "skip: read on after it, and report it.")],
        OnDamage.FAIL,
    ),
    "offsets_partitions": (
        Annotated[
            int | None,
            _option(
                "--offsets-partitions",
                "Partitions of __consumer_offsets, if a broker's folder does not show it.",
                min=1,
                metavar="COUNT",
            ),
        ],
        None,
    ),
}
_SPANS: Final = {
    "retention": _span("--retention", "The retention of offsets, or `never`."),
    "expiry_warning": _span("--expiry-warning", "Report offsets that expire within this time."),
    "future": _span("--future", "Report times this far in the future."),
    "stopped": _span("--stopped-after", "Report groups without a commit for this long as STOPPED."),
    "time_lag_max": _span("--time-lag", "Report a larger lag."),
}
_THRESHOLD_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    **{name: (annotation, _span_default(name)) for name, annotation in _SPANS.items()},
    "expiry_base": (
        Annotated[
            ExpiryBase | None,
            _option("--expiry-base", "As offsets.expiry.base; default: by the kind of folder."),
        ],
        None,
    ),
    "compaction_lag": (
        Annotated[
            str | None,
            _option(
                "--compaction-lag",
                "Younger segments stay uncleaned; default: 1h in offsetd's folders.",
                metavar="TIME",
            ),
        ],
        None,
    ),
    "repeats_min": (
        Annotated[int, _option("--repeats", "Do not report groups with fewer.", min=1)],
        _DEFAULTS.repeats_min,
    ),
    "repeat_ratio_min": (
        Annotated[float, _option("--repeat-ratio", "Do not report a smaller part.", **_RATIO)],
        _DEFAULTS.repeat_ratio_min,
    ),
    "rewind_min": (
        Annotated[int, _option("--rewind", "Report a step back by at least this much.", min=1)],
        _DEFAULTS.rewind_min,
    ),
    "skip_min": (
        Annotated[int, _option("--skip", "Report a step ahead by at least this much.", min=1)],
        _DEFAULTS.skip_min,
    ),
    "skip_factor": (
        Annotated[
            float, _option("--skip-factor", "And this many times as fast as ever before.", min=1.0)
        ],
        _DEFAULTS.skip_factor,
    ),
    "stalled_commits_min": (
        Annotated[
            int,
            _option("--stalled-after", "Report this many commits of one offset as STALLED.", min=2),
        ],
        _DEFAULTS.stalled_commits_min,
    ),
    "dirty_ratio_max": (
        Annotated[
            float, _option("--dirty-ratio", "A log with a larger dirty ratio is due.", **_RATIO)
        ],
        _DEFAULTS.dirty_ratio_max,
    ),
    "saving_ratio_min": (
        Annotated[
            float, _option("--saving-ratio", "Warn if a cleaning would save more.", **_RATIO)
        ],
        _DEFAULTS.saving_ratio_min,
    ),
}

with_thresholds: Final = with_options("thresholds", _thresholds, _THRESHOLD_OPTIONS)


def with_scope(command: Any) -> Any:
    """Gives a command a folder and the options of its scope, as `scope`."""
    folder = Annotated[
        str, typer.Argument(metavar="FOLDER", help="A data folder, offsetd's or a broker's.")
    ]
    options = {"folder": (folder, ...), **_SCOPE_OPTIONS}
    return with_options("scope", _scope, options)(command)

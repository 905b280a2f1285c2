"""The options of `audit`: what is looked at, and from when on it is worth a word."""

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
    """The time that a text names; None: now."""
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
        Annotated[str, _option("--group-prefix", "And groups that begin so.", metavar="TEXT")],
        "",
    ),
    "since": (
        Annotated[str | None, _option("--since", "Records from then on.", metavar="TIME")],
        None,
    ),
    "until": (
        Annotated[str | None, _option("--until", "Records before then.", metavar="TIME")],
        None,
    ),
    "on_damage": (
        Annotated[OnDamage, _option("--on-damage", "skip: read on behind it, and tell of it.")],
        OnDamage.FAIL,
    ),
    "offsets_partitions": (
        Annotated[
            int | None,
            _option(
                "--offsets-partitions",
                "Partitions of __consumer_offsets, where a broker's folder does not say it.",
                min=1,
                metavar="COUNT",
            ),
        ],
        None,
    ),
}
_SPANS: Final = {
    "retention": _span("--retention", "How long offsets stay; `never`."),
    "expiry_warning": _span("--expiry-warning", "What goes within that is told."),
    "future": _span("--future", "So much later than now is the future."),
    "stopped": _span("--stopped-after", "Without a commit for so long: STOPPED."),
    "time_lag_max": _span("--time-lag", "A larger lag is told."),
}
_THRESHOLD_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    **{name: (annotation, _span_default(name)) for name, annotation in _SPANS.items()},
    "expiry_base": (
        Annotated[
            ExpiryBase | None,
            _option("--expiry-base", "As offsets.expiry.base; else by whose folder it is."),
        ],
        None,
    ),
    "compaction_lag": (
        Annotated[
            str | None,
            _option(
                "--compaction-lag",
                "Younger segments stay uncleaned; else 1h in a folder of ours.",
                metavar="TIME",
            ),
        ],
        None,
    ),
    "repeats_min": (
        Annotated[int, _option("--repeats", "Fewer of a group are not told.", min=1)],
        _DEFAULTS.repeats_min,
    ),
    "repeat_ratio_min": (
        Annotated[float, _option("--repeat-ratio", "A smaller part is not told.", **_RATIO)],
        _DEFAULTS.repeat_ratio_min,
    ),
    "rewind_min": (
        Annotated[int, _option("--rewind", "Back by at least so much.", min=1)],
        _DEFAULTS.rewind_min,
    ),
    "skip_min": (
        Annotated[int, _option("--skip", "Ahead by at least so much.", min=1)],
        _DEFAULTS.skip_min,
    ),
    "skip_factor": (
        Annotated[float, _option("--skip-factor", "And so many times as fast as ever.", min=1.0)],
        _DEFAULTS.skip_factor,
    ),
    "stalled_commits_min": (
        Annotated[int, _option("--stalled-after", "So many of one offset: STALLED.", min=2)],
        _DEFAULTS.stalled_commits_min,
    ),
    "dirty_ratio_max": (
        Annotated[float, _option("--dirty-ratio", "Dirtier logs are due.", **_RATIO)],
        _DEFAULTS.dirty_ratio_max,
    ),
    "saving_ratio_min": (
        Annotated[float, _option("--saving-ratio", "To save more is a warning.", **_RATIO)],
        _DEFAULTS.saving_ratio_min,
    ),
}

with_thresholds: Final = with_options("thresholds", _thresholds, _THRESHOLD_OPTIONS)


def with_scope(command: Any) -> Any:
    """Gives a command a folder and what of it is looked at, as `scope`."""
    folder = Annotated[str, typer.Argument(metavar="FOLDER", help="Ours, or a broker's.")]
    options = {"folder": (folder, ...), **_SCOPE_OPTIONS}
    return with_options("scope", _scope, options)(command)

"""Values as text of a page: Jinja's environment, which escapes everything, and its filters."""

from datetime import UTC, datetime, timedelta
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from offsetd_clients.admin_values import ConfigSetting
from offsetd_clients.web.names import bounded, group_link, marked
from offsetd_clients.web.pages.group_order import toggled

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_SMALL_RATE = 10
_SECOND_MS = 1000
# More means that there is no limit.
_SPAN_MS_MAX = 1000 * 365 * 86_400_000
UNKNOWN = "\N{EN DASH}"


def environment() -> Environment:
    """The templates of this package."""
    made = Environment(
        loader=PackageLoader("offsetd_clients.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        bounded=bounded,
        marked=marked,
        size=size_text,
        time=time_text,
        span=span_text,
        whole=whole_text,
    )
    made.filters.update(rate=rate_text, seconds=seconds_text, meaning=meaning_text)
    made.globals.update(group_link=group_link, toggled=toggled)
    return made


def whole_text(number: int | None) -> str:
    """A number with commas; a dash if it is not known."""
    return UNKNOWN if number is None else f"{number:,}"


def size_text(size_bytes: int) -> str:
    """Bytes in the largest fitting unit."""
    amount, unit = float(size_bytes), 0
    while amount >= _STEP and unit < len(_UNITS) - 1:
        amount, unit = amount / _STEP, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def rate_text(rate: float) -> str:
    """A number of events a second, with a decimal place while it is small."""
    return f"{rate:,.1f}" if 0 < rate < _SMALL_RATE else f"{rate:,.0f}"


def seconds_text(seconds: float) -> str:
    """A duration in its two largest units."""
    return span_text(timedelta(seconds=round(seconds)))


def meaning_text(setting: ConfigSetting) -> str:
    """The value of a setting in larger units, in brackets; empty if it has no such meaning."""
    if not (setting.value.isascii() and setting.value.isdigit()):
        return ""
    number = int(setting.value)
    if setting.unit == "ms" and number >= _SECOND_MS and number <= _SPAN_MS_MAX:
        return f" ({span_text(timedelta(milliseconds=number))})"
    if setting.unit == "bytes" and number >= _STEP:
        return f" ({size_text(number)})"
    return ""


def time_text(time: datetime | None) -> str:
    """A time in UTC, to the second; a dash if there is none."""
    return UNKNOWN if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def span_text(span: Any) -> str:
    """A duration in its two largest units; other values as they are."""
    if span is None:
        return "the server's"
    if not isinstance(span, timedelta):
        return str(span)
    seconds = round(span.total_seconds())
    parts = []
    for unit_seconds, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, unit_seconds)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"

"""Formats values for users, by the unit at the end of their names."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_KIB: Final = 1024
_SECONDS_SHOWN_MAX: Final = 120
_FRACTIONS_BELOW: Final = 1000
_RATIO_SHOWN_MIN: Final = 0.001


def _bytes(value: float) -> str:
    for unit in _SIZES[:-1]:
        if abs(value) < _KIB:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= _KIB
    return f"{value:,.1f} {_SIZES[-1]}"


def _seconds(value: float) -> str:
    if abs(value) < _SECONDS_SHOWN_MAX:
        return f"{value:,.3g} s"
    # Python writes a negative duration as negative days plus a positive rest.
    sign = "-" if value < 0 else ""
    return f"{sign}{timedelta(seconds=round(abs(value)))}"


def _ratio(value: float) -> str:
    """A percentage: only 0 is 0%, and only 1 is 100%."""
    if 0 < value < _RATIO_SHOWN_MIN:
        return f"<{_RATIO_SHOWN_MIN:.1%}"
    if 1 - _RATIO_SHOWN_MIN < value < 1:
        return f">{1 - _RATIO_SHOWN_MIN:.1%}"
    return f"{value:.1%}"


_BY_UNIT: Final[dict[str, Callable[[float], str]]] = {
    "_bytes": _bytes,
    "_ms": lambda value: _seconds(value / 1000),
    "_s": _seconds,
    "_ratio": _ratio,
}


def headings(names: Iterable[str]) -> list[str]:
    """The names of columns for users: their words, without the unit.

    The unit stays if two names would otherwise be equal, or one the plural of the other.
    """
    listed = list(names)
    short = [_without_unit(each) for each in listed]
    seen = Counter(each.removesuffix("s") for each in short)
    kept = [
        name if seen[plain.removesuffix("s")] > 1 else plain
        for name, plain in zip(listed, short, strict=True)
    ]
    return [each.replace("_", " ") for each in kept]


def _without_unit(name: str) -> str:
    for unit in _BY_UNIT:
        name = name.removesuffix(unit)
    return name


def shown(name: str, value: object) -> str:
    """A value of the column or fact `name`. None is a dash; times are UTC."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            for unit, text_of in _BY_UNIT.items():
                if name.endswith(unit):
                    return text_of(value)
            is_whole = isinstance(value, int) or abs(value) >= _FRACTIONS_BELOW
            return f"{value:,.0f}" if is_whole else f"{value:,.4g}"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case list() | tuple():
            return ", ".join(shown("", each) for each in value)
        case bytes():
            return value.hex()
        case _:
            return str(value)


def is_number(value: object) -> bool:
    """Whether a value is aligned to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)

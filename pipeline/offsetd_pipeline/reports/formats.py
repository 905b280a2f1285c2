"""How values are shown to people, by the unit that their name ends with."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_KIB: Final = 1024
_SECONDS_SHOWN_MAX: Final = 120
_FRACTIONS_BELOW: Final = 1000


def _bytes(value: float) -> str:
    for unit in _SIZES[:-1]:
        if abs(value) < _KIB:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= _KIB
    return f"{value:,.1f} {_SIZES[-1]}"


def _seconds(value: float) -> str:
    if abs(value) < _SECONDS_SHOWN_MAX:
        return f"{value:,.3g} s"
    return str(timedelta(seconds=round(value)))


_BY_UNIT: Final[dict[str, Callable[[float], str]]] = {
    "_bytes": _bytes,
    "_ms": lambda value: _seconds(value / 1000),
    "_s": _seconds,
    "_ratio": lambda value: f"{value:.1%}",
}


def heading(name: str) -> str:
    """A column's name for people: its words, without the unit that each value has."""
    for unit in _BY_UNIT:
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def shown(name: str, value: object) -> str:
    """A value of the column or fact `name`; None is a dash, times are UTC."""
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
    """Whether a value is set to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)

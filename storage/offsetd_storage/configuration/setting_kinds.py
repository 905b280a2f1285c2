"""The kinds of setting values: their form as text, and the allowed values."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

if TYPE_CHECKING:
    import enum
    from collections.abc import Mapping

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
PORT_MAX: Final = 65_535
UNIX_PREFIXES: Final = ("unix:", "unix-abstract:")

_WHOLE: Final = re.compile(r"[+-]?[0-9](_?[0-9]){0,24}", re.ASCII)
_REAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)
# An IPv6 host has brackets, and may name a network interface.
_HOST_AND_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:\s]*):([0-9]{1,5})", re.ASCII)


class Kind(Protocol):
    """The form of a setting's values as text, and the allowed values."""

    @property
    def allowed(self) -> str:
        """The allowed values, as text for people."""

    def parse(self, text: str) -> object:
        """The value of a text. Raises ValueError if the text is not of this kind."""

    def render(self, value: Any) -> str:
        """The text that Kafka shows for a value."""

    def allows(self, value: Any) -> bool:
        """Returns whether the value is allowed."""


@attrs.frozen(kw_only=True)
class Whole:
    """An integer."""

    least: int | None  # None for the least number of the integer's size.
    most: int
    is_optional: bool

    @property
    def allowed(self) -> str:
        if self.least is None:
            return f"a whole number up to {self.most}"
        return f"a whole number from {self.least} to {self.most}"

    def parse(self, text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError(text)
        return int(text)

    def render(self, value: int | None) -> str:
        return "" if value is None else str(value)

    def allows(self, value: Any) -> bool:
        if value is None:
            return self.is_optional
        least = -self.most - 1 if self.least is None else self.least
        return type(value) is int and least <= value <= self.most


@attrs.frozen(kw_only=True)
class Real:
    """A finite number."""

    least: float
    most: float
    excludes_least: bool

    @property
    def allowed(self) -> str:
        start = f"above {self.least:g}" if self.excludes_least else f"from {self.least:g}"
        return f"a number {start}" + (f" to {self.most:g}" if self.most < 1e300 else "")

    def parse(self, text: str) -> float:
        if not _REAL.fullmatch(text):
            raise ValueError(text)
        return float(text)

    def render(self, value: float) -> str:
        return repr(float(value))

    def allows(self, value: Any) -> bool:
        if type(value) not in (int, float) or not math.isfinite(value):
            return False
        above = value > self.least if self.excludes_least else value >= self.least
        return above and bool(value <= self.most)


@attrs.frozen(kw_only=True)
class Flag:
    """True or false."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"

    def render(self, value: bool) -> str:
        return str(value).lower()

    def allows(self, value: Any) -> bool:
        return type(value) is bool


@attrs.frozen(kw_only=True)
class Choice:
    """One member of an enumeration; with `is_set`, any number of them, joined by commas."""

    names: Mapping[str, enum.Enum]
    is_set: bool

    @property
    def allowed(self) -> str:
        listed = ", ".join(self.names)
        return f"a list out of {listed}" if self.is_set else f"one of {listed}"

    def parse(self, text: str) -> object:
        words = [word.strip() for word in text.split(",")] if self.is_set and text else [text]
        if self.is_set and not text:
            return frozenset()
        if any(word not in self.names for word in words):
            raise ValueError(text)
        return frozenset(map(self.names.get, words)) if self.is_set else self.names[text]

    def render(self, value: Any) -> str:
        return ",".join(
            name
            for name, member in self.names.items()
            if (member in value if self.is_set else member is value)
        )

    def allows(self, value: Any) -> bool:
        members = frozenset(self.names.values())
        return (isinstance(value, frozenset) and value <= members) or (
            not self.is_set and value in members
        )


@attrs.frozen(kw_only=True)
class Listed:
    """One of a few numbers, or of a few words."""

    values: tuple[int, ...] | tuple[str, ...]

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(map(str, self.values))

    def parse(self, text: str) -> object:
        for value in self.values:
            if str(value) == text:
                return value
        raise ValueError(text)

    def render(self, value: object) -> str:
        return str(value)

    def allows(self, value: Any) -> bool:
        return type(value) is type(self.values[0]) and value in self.values


@attrs.frozen(kw_only=True)
class Text:
    """Any text."""

    @property
    def allowed(self) -> str:
        return "text"

    def parse(self, text: str) -> str:
        return text

    def render(self, value: str) -> str:
        return value

    def allows(self, value: Any) -> bool:
        return type(value) is str


@attrs.frozen(kw_only=True)
class Address:
    """HOST:PORT, an IPv6 host in brackets, or gRPC's name for a Unix socket."""

    may_be_empty: bool

    @property
    def allowed(self) -> str:
        empty = ", or nothing" if self.may_be_empty else ""
        return f"HOST:PORT, port 0 to {PORT_MAX}{empty}"

    def parse(self, text: str) -> str:
        return text

    def render(self, value: str) -> str:
        return value

    def allows(self, value: Any) -> bool:
        if type(value) is not str:
            return False
        if not value:
            return self.may_be_empty
        if value.startswith(UNIX_PREFIXES):
            return True
        matched = _HOST_AND_PORT.fullmatch(value)
        return matched is not None and int(matched[1]) <= PORT_MAX

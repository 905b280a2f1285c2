"""Settings under Kafka's names: declared once, as fields of a frozen class, and read as text.

A field carries its `Setting`: name, unit, bounds and reason. What a program sets is checked
against the bounds of the engine; what an operator writes, also against Kafka's where those are
narrower (`internal.<name>` passes by them, as with a broker).
"""

from __future__ import annotations

import difflib
import enum
import math
import re
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import attrs

from offsetd_storage.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,25}", re.ASCII)
_REAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)
INTERNAL_PREFIX: Final = "internal."

_Config = TypeVar("_Config", bound=attrs.AttrsInstance)
_ChoiceT = TypeVar("_ChoiceT", bound=enum.Enum)


class Kind(Protocol):
    """How a setting's values look as text, and which are allowed."""

    @property
    def allowed(self) -> str:
        """The allowed values, for people."""

    def parse(self, text: str) -> object:
        """The value. Raises ValueError if the text is none of this kind."""

    def render(self, value: Any) -> str:
        """The text that Kafka shows for a value."""

    def allows(self, value: Any) -> bool:
        """Whether the value is within the bounds."""


@attrs.frozen(kw_only=True)
class Setting:
    """What a setting is called, means and may be."""

    name: str
    unit: str
    reason: str
    kind: Kind
    operator_kind: Kind  # With the bounds for what an operator writes.
    default: object
    server_name: str | None = None  # Of the broker's setting that is the default of all topics.

    def check(self, value: object) -> None:
        """Raises InvalidSetting where a program passes what the engine cannot do."""
        if not self.kind.allows(value):
            raise InvalidSetting(self.name, self._refusal(value, self.kind))

    def parsed(self, text: str, *, is_internal: bool = False) -> object:
        """The value that an operator wrote. Raises InvalidSetting."""
        kind = self.kind if is_internal else self.operator_kind
        try:
            value = kind.parse(text.strip())
        except ValueError:
            raise InvalidSetting(self.name, self._refusal(repr(text), kind)) from None
        if not kind.allows(value):
            raise InvalidSetting(self.name, self._refusal(text.strip(), kind))
        return value

    def _refusal(self, value: object, kind: Kind) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{value} is not {kind.allowed}{unit}"


@attrs.frozen(kw_only=True)
class _Whole:
    least: int | None  # None: as far below 0 as the numbers of its size go.
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
class _Real:
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
class _Flag:
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
class _Choice:
    """One of an enumeration's members, or with `is_set` any of them, joined by commas."""

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


def whole(
    default: int | None,
    name: str,
    *,
    unit: str,
    reason: str,
    least: int | None,
    most: int = INT64_MAX,
    kafka_least: int | None = None,
    server_name: str | None = None,
) -> Any:
    """An integer from `least` (None: however negative) to `most`; None only as a default.

    `kafka_least` where the engine can do with less than Kafka lets an operator write.
    """
    kind = _Whole(least=least, most=most, is_optional=default is None)
    operator_kind = kind if kafka_least is None else attrs.evolve(kind, least=kafka_least)
    return _field(
        default,
        name,
        kind,
        unit=unit,
        reason=reason,
        server_name=server_name,
        operator_kind=operator_kind,
    )


def real(
    default: float,
    name: str,
    *,
    unit: str,
    reason: str,
    least: float,
    most: float,
    excludes_least: bool = False,
    server_name: str | None = None,
) -> Any:
    """A finite number from `least` to `most`."""
    kind = _Real(least=least, most=most, excludes_least=excludes_least)
    return _field(default, name, kind, unit=unit, reason=reason, server_name=server_name)


def flag(default: bool, name: str, *, reason: str) -> Any:
    """True or false."""
    return _field(default, name, _Flag(), unit="", reason=reason, server_name=None)


def choice(
    default: _ChoiceT,
    name: str,
    names: Mapping[str, _ChoiceT],
    *,
    reason: str,
    server_name: str | None = None,
) -> Any:
    """One of the named members."""
    kind = _Choice(names=names, is_set=False)
    return _field(default, name, kind, unit="", reason=reason, server_name=server_name)


def choices(
    default: frozenset[_ChoiceT],
    name: str,
    names: Mapping[str, _ChoiceT],
    *,
    reason: str,
    server_name: str | None = None,
) -> Any:
    """A set of the named members, which may be empty."""
    kind = _Choice(names=names, is_set=True)
    return _field(default, name, kind, unit="", reason=reason, server_name=server_name)


def _field(
    default: object,
    name: str,
    kind: Kind,
    *,
    unit: str,
    reason: str,
    server_name: str | None,
    operator_kind: Kind | None = None,
) -> Any:
    setting = Setting(
        name=name,
        unit=unit,
        reason=reason,
        kind=kind,
        operator_kind=operator_kind or kind,
        default=default,
        server_name=server_name,
    )
    return attrs.field(
        default=default,
        validator=lambda _, __, value: setting.check(value),
        metadata={"setting": setting},
    )


def settings_of(config_class: type[attrs.AttrsInstance]) -> dict[str, Setting]:
    """The settings that a class declares, by the names of its fields."""
    return {each.name: each.metadata["setting"] for each in attrs.fields(config_class)}


def with_settings(config: _Config, texts: Mapping[str, str]) -> _Config:
    """`config` with some of its settings as an operator wrote them, by name.

    Raises InvalidSetting for a name that does not exist and for a value that is not allowed.
    """
    return _changed(config, texts, lambda setting: setting.name)


def with_server_settings(config: _Config, texts: Mapping[str, str]) -> _Config:
    """The same by the names that Kafka's brokers have for the defaults of all topics."""
    return _changed(config, texts, lambda setting: setting.server_name)


def _changed(
    config: _Config, texts: Mapping[str, str], name_of: Callable[[Setting], str | None]
) -> _Config:
    settings = settings_of(type(config))
    fields = {name_of(setting): field for field, setting in settings.items()}
    names = [name for name in fields if name]
    changes = {}
    for name, text in texts.items():
        is_internal = name not in fields and name.startswith(INTERNAL_PREFIX)
        field = fields.get(name.removeprefix(INTERNAL_PREFIX) if is_internal else name)
        if field is None:
            near = difflib.get_close_matches(name, names, n=1)
            raise InvalidSetting(name, "no such setting" + (f"; {near[0]}?" if near else ""))
        changes[field] = settings[field].parsed(text, is_internal=is_internal)
    changed: _Config = attrs.evolve(cast("Any", config), **changes)
    return changed


def rendered(config: attrs.AttrsInstance) -> dict[str, str]:
    """Every setting's value as text, by name."""
    return {
        setting.name: setting.kind.render(getattr(config, field))
        for field, setting in settings_of(type(config)).items()
    }

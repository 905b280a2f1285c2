"""Settings under Kafka's names: declared once, as fields of a frozen class, and read as text.

A field has its `Setting`: name, unit, bounds and reason. A value that a program sets is checked
against the bounds of the engine. A value that an operator writes is also checked against Kafka's
bounds if these are narrower. The prefix `internal.` skips Kafka's bounds, as in a broker.
"""

from __future__ import annotations

import difflib
import enum
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import attrs

from offsetd_storage.configuration.setting_kinds import (
    INT64_MAX,
    Address,
    Choice,
    Flag,
    Kind,
    Listed,
    Real,
    Text,
    Whole,
)
from offsetd_storage.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

INTERNAL_PREFIX: Final = "internal."

_METADATA: Final = "setting"
_ChoiceT = TypeVar("_ChoiceT", bound=enum.Enum)


class _Names(TypedDict, total=False):
    """The names of a setting in other places."""

    server_name: str  # The broker's setting that is the default for all topics.
    kafka_name: str  # If Kafka's name differs.
    is_ours: bool  # True if Kafka has no such setting.


@attrs.frozen(kw_only=True)
class Setting:
    """A setting's name, meaning, unit and allowed values."""

    name: str
    unit: str
    reason: str
    kind: Kind
    operator_kind: Kind  # The bounds for values that an operator writes.
    default: object
    server_name: str | None  # The broker's setting that is the default for all topics.
    kafka_name: str | None  # None if Kafka has no such setting.

    def check(self, value: object) -> None:
        """Checks a program's value. Raises InvalidSetting if the engine cannot work with it."""
        if not self.kind.allows(value):
            raise InvalidSetting(self.name, self._refusal(value, self.kind))

    def parsed(self, text: str, *, is_internal: bool = False) -> object:
        """The value of an operator's text. Raises InvalidSetting."""
        kind = self.kind if is_internal else self.operator_kind
        try:
            value = kind.parse(text.strip())
        except ValueError:
            raise InvalidSetting(self.name, self._refusal(repr(text), kind)) from None
        if not kind.allows(value):
            raise InvalidSetting(self.name, self._refusal(text.strip() or repr(text), kind))
        return value

    def of_server(self) -> Setting | None:
        """The broker's setting that is the default of this topic setting, if there is one."""
        if self.server_name is None:
            return None
        return attrs.evolve(
            self, name=self.server_name, kafka_name=self.server_name, server_name=None
        )

    def _refusal(self, value: object, kind: Kind) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{value} is not {kind.allowed}{unit}"


def whole(
    default: int | None,
    name: str,
    *,
    unit: str,
    reason: str,
    least: int | None = 0,
    most: int = INT64_MAX,
    operator_least: int | None = None,
    **names: Unpack[_Names],
) -> Any:
    """An integer from `least` (no lower bound if None) to `most`. None only as a default.

    `operator_least` is the least that an operator may write, if the engine allows less.
    """
    kind = Whole(least=least, most=most, is_optional=default is None)
    operator_kind = kind if operator_least is None else attrs.evolve(kind, least=operator_least)
    return _field(default, name, kind, operator_kind, unit=unit, reason=reason, **names)


def milliseconds(
    default: int | None,
    name: str,
    *,
    reason: str,
    least: int | None = 0,
    most: int = INT64_MAX,
    **names: Unpack[_Names],
) -> Any:
    """A time from `least` (no lower bound if None) to `most` ms. None only as a default."""
    return whole(default, name, unit="ms", reason=reason, least=least, most=most, **names)


def real(
    default: float,
    name: str,
    *,
    unit: str,
    reason: str,
    least: float,
    most: float,
    excludes_least: bool = False,
    **names: Unpack[_Names],
) -> Any:
    """A finite number from `least` to `most`."""
    kind = Real(least=least, most=most, excludes_least=excludes_least)
    return _field(default, name, kind, unit=unit, reason=reason, **names)


def flag(default: bool, name: str, *, reason: str, **names: Unpack[_Names]) -> Any:
    """True or false."""
    return _field(default, name, Flag(), reason=reason, **names)


def choice(
    default: _ChoiceT,
    name: str,
    members: Mapping[str, _ChoiceT],
    *,
    reason: str,
    **names: Unpack[_Names],
) -> Any:
    """One of the named members."""
    return _field(default, name, Choice(names=members, is_set=False), reason=reason, **names)


def choices(
    default: frozenset[_ChoiceT],
    name: str,
    members: Mapping[str, _ChoiceT],
    *,
    reason: str,
    **names: Unpack[_Names],
) -> Any:
    """A set of the named members, which may be empty."""
    return _field(default, name, Choice(names=members, is_set=True), reason=reason, **names)


def listed(
    default: int | str,
    name: str,
    values: tuple[int, ...] | tuple[str, ...],
    *,
    reason: str,
    **names: Unpack[_Names],
) -> Any:
    """One of a few numbers, or of a few words."""
    return _field(default, name, Listed(values=values), reason=reason, **names)


def text(default: str, name: str, *, reason: str, **names: Unpack[_Names]) -> Any:
    """Any text."""
    return _field(default, name, Text(), reason=reason, **names)


def address(
    default: str, name: str, *, reason: str, may_be_empty: bool = False, **names: Unpack[_Names]
) -> Any:
    """HOST:PORT, or gRPC's name for a Unix socket."""
    return _field(default, name, Address(may_be_empty=may_be_empty), reason=reason, **names)


def _field(
    default: object,
    name: str,
    kind: Kind,
    operator_kind: Kind | None = None,
    *,
    unit: str = "",
    reason: str,
    **names: Unpack[_Names],
) -> Any:
    setting = Setting(
        name=name,
        unit=unit,
        reason=reason,
        kind=kind,
        operator_kind=operator_kind or kind,
        default=default,
        server_name=names.get("server_name"),
        kafka_name=None if names.get("is_ours") else names.get("kafka_name", name),
    )
    return attrs.field(
        default=default,
        validator=lambda _, __, value: setting.check(value),
        metadata={_METADATA: setting},
    )


def settings_of(config_class: type[attrs.AttrsInstance]) -> dict[str, Setting]:
    """The settings that a class declares, by the names of its fields."""
    return {
        each.name: each.metadata[_METADATA]
        for each in attrs.fields(config_class)
        if _METADATA in each.metadata
    }


def canonical_name(name: str) -> str:
    """The name without the prefix with which an operator can go beyond Kafka's bounds."""
    return name.removeprefix(INTERNAL_PREFIX)


def unknown_setting(
    name: str, names: Iterable[str], elsewhere: Mapping[str, str] | None = None
) -> InvalidSetting:
    """The error for a name that does not exist; it suggests the nearest name.

    `elsewhere` has names that exist in another place, each with a text that names the place.
    """
    places = {**(elsewhere or {}), **dict.fromkeys(names, "")}
    near = difflib.get_close_matches(canonical_name(name), list(places), n=1)
    hint = f"; did you mean {near[0]}{places[near[0]]}?" if near else ""
    return InvalidSetting(name, f"no such setting{hint}")


def rendered(config: attrs.AttrsInstance) -> dict[str, str]:
    """Every setting's value as text, by name."""
    return {
        setting.name: setting.kind.render(getattr(config, field))
        for field, setting in settings_of(type(config)).items()
    }

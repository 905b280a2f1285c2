"""The sources of the server's settings, in order of priority.

They are `--set NAME=VALUE`, the environment (`OFFSETD_SEGMENT_MS` for `segment.ms`), the TOML file,
the default. An unknown name is an error.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from offsetd_storage.configuration.settings import INTERNAL_PREFIX, canonical_name, unknown_setting
from offsetd_storage.errors import InvalidSetting

from offsetd_coordinator.configuration.cluster_settings import KAFKA_PREFIX, kafka_setting
from offsetd_coordinator.configuration.server_settings import ALL_SETTINGS, OWN_FIELDS, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ENVIRONMENT_PREFIX: Final = "OFFSETD_"
_KAFKA_VARIABLES: Final = f"{_ENVIRONMENT_PREFIX}CLUSTER_KAFKA_"
# Names with offsetd's prefix that are not settings. Clients and test runs read some; Kubernetes
# sets the others in every pod if a service is called `offsetd`.
_ENVIRONMENT_NOT_OURS: Final = re.compile(
    r"ADDRESS|TLS(_.*)?|TOKEN"
    r"|ZOOKEEPER(_AUTH)?|REQUIRE|NIGHTLY|TEST_.*|SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_.*)?"
)


class SettingsError(ValueError):
    """An unknown setting or a value that is not allowed; the message names it and the reason."""


class _Said(NamedTuple):
    """A setting in its written form, and its source."""

    name: str
    value: str
    source: str


def load_settings(
    *,
    toml: str = "",
    toml_name: str = "the file",
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    options: Mapping[str, tuple[str, str]] | None = None,
) -> Settings:
    """The settings from their sources: `assignments` (`NAME=VALUE`) over `environment` over `toml`.

    `options` override all. They have the option that the user wrote, the setting's name, and its
    value. Raises SettingsError for an unknown name, a value that is not allowed, values that do not
    fit each other, or text that is not TOML.
    """
    values: dict[str, Any] = {}
    said: dict[str, str] = {}
    of_kafka: dict[str, str] = {}
    for each in (
        *_from_toml(toml, toml_name),
        *_from_environment(environment or {}),
        *_from_assignments(assignments),
        *(_Said(*given, option) for option, given in (options or {}).items()),
    ):
        if each.name.startswith(KAFKA_PREFIX):
            name, of_kafka_value = _read_of_kafka(each)
            of_kafka[name] = of_kafka_value
            continue
        name, value, said[name] = _read(each)
        if name in OWN_FIELDS:
            values[OWN_FIELDS[name]] = value
    try:
        settings = Settings(**values, said=said, cluster_kafka=of_kafka)
    except InvalidSetting as error:
        raise SettingsError(str(error)) from error
    # Imported here because it imports the store. A list of the settings does not need the store.
    from offsetd_coordinator.configuration.settings_consistency import misfit  # noqa: PLC0415

    if (why := misfit(settings)) is not None:
        raise SettingsError(why)
    return settings


def _read(said: _Said) -> tuple[str, object, str]:
    """The canonical name, the value, and the value as text."""
    if not said.name:
        raise SettingsError(f"{said.source}: a setting has a name: NAME=VALUE")
    setting = ALL_SETTINGS.get(canonical_name(said.name))
    try:
        if setting is None:
            raise unknown_setting(said.name, ALL_SETTINGS)
        value = setting.parsed(said.value, is_internal=said.name != setting.name)
    except InvalidSetting as error:
        raise SettingsError(f"{said.name} ({said.source}): {error.reason}") from error
    return setting.name, value, setting.kind.render(value)


def _read_of_kafka(said: _Said) -> tuple[str, str]:
    try:
        name, value = kafka_setting(said.name, said.value)
    except InvalidSetting as error:
        raise SettingsError(f"{said.name} ({said.source}): {error.reason}") from error
    if not name:
        raise SettingsError(f"{said.name} ({said.source}): the setting of Kafka has no name")
    return name, value


def _from_toml(document: str, file_name: str) -> Iterator[_Said]:
    try:
        tables = tomllib.loads(document)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file_name}: {error}") from error
    for name, value in _flatten(tables, ""):
        yield _Said(name, _toml_text(name, value, file_name), file_name)


def _flatten(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Joins names again: TOML reads a dotted name as nested tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _toml_text(name: str, value: object, file_name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(_toml_text(name, each, file_name) for each in value)
    if isinstance(value, str | int | float):
        return str(value)
    raise SettingsError(f"{name} ({file_name}): {value} is neither text, a number nor a list")


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Said]:
    by_variable = {environment_name(name): name for name in ALL_SETTINGS}
    internal = {
        environment_name(INTERNAL_PREFIX + name): INTERNAL_PREFIX + name for name in ALL_SETTINGS
    }
    names = by_variable | internal
    for variable, value in environment.items():
        suffix = variable.removeprefix(_ENVIRONMENT_PREFIX)
        if suffix == variable or (
            variable not in names and _ENVIRONMENT_NOT_OURS.fullmatch(suffix)
        ):
            continue
        if variable.startswith(_KAFKA_VARIABLES):
            name = variable.removeprefix(_KAFKA_VARIABLES).lower().replace("_", ".")
            yield _Said(KAFKA_PREFIX + name, value, f"environment {variable}")
            continue
        if variable not in names:
            near = difflib.get_close_matches(variable, by_variable, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(f"{variable} (environment): no such setting{hint}")
        yield _Said(names[variable], value, f"environment {variable}")


def environment_name(name: str) -> str:
    """The environment variable of a setting."""
    return _ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def _from_assignments(assignments: Sequence[str]) -> Iterator[_Said]:
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingsError(f"--set {assignment}: must be NAME=VALUE")
        yield _Said(name.strip(), value, "--set")

"""The file of quotas (`security.quotas.file`): TOML, with a table `[[quota]]` for each entity.

    [[quota]]
    principal = "User:loader"   # or a client_id, or both; "User:*", "*": each without its own
    commit_rate = 1000          # at most this many a second
    streams_max = 4             # at most this many at once

-1 is no limit: it exempts from the limit of a less specific table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from offsetd_storage.configuration.setting_kinds import INT32_MAX

from offsetd_coordinator.quotas.quota_table import DEFAULT, UNLIMITED, Entity, Quota, QuotaTable
from offsetd_coordinator.security.acl import ANY, USER_PREFIX
from offsetd_coordinator.security.toml_tables import (
    read_principal,
    shown,
    suggestion,
    tables_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUOTAS: Final = {quota.value: quota for quota in Quota}
_KEYS: Final = ("principal", "client_id", *_QUOTAS)
_ANY_PRINCIPAL: Final = USER_PREFIX + ANY
_CLIENT_ID: Final = re.compile(r"[\x20-\x7e]{1,256}")
_NUMBER_CHARACTERS_MAX: Final = 20


class InvalidQuotaFile(ValueError):
    """The content is not that of a file of quotas. The message is one line and names the table."""


def parse_quota_file(content: bytes | str) -> QuotaTable:
    """The quotas of a file's content. Raises InvalidQuotaFile.

    A key that is not known is an error: a misspelt limit would limit nothing.
    """
    try:
        return QuotaTable(_limits(content))
    except ValueError as error:
        raise InvalidQuotaFile(str(error)) from None


def _limits(content: bytes | str) -> Mapping[Entity, Mapping[Quota, int]]:
    limits: dict[Entity, Mapping[Quota, int]] = {}
    for number, table in enumerate(tables_of(content, "quota"), 1):
        try:
            entity, limits_in = _entity(table), _limits_in(table)
        except ValueError as error:
            raise ValueError(f"table {number}: {error}") from None
        if entity in limits:
            raise ValueError(f"table {number}: an earlier table is for the same: {entity}")
        limits[entity] = limits_in
    return limits


def _entity(table: Any) -> Entity:
    if not isinstance(table, dict):
        raise ValueError("expected a table, `[[quota]]`")  # noqa: TRY004  # One error for all.
    if unknown := table.keys() - set(_KEYS):
        word = min(unknown)
        raise ValueError(f"unknown key {shown(word)}{suggestion(word, _KEYS)}")
    principal, client_id = _name(table, "principal"), _name(table, "client_id")
    if not (principal or client_id):
        raise ValueError("it has no `principal` and no `client_id`")
    for key, name, default in (
        ("principal", principal, _ANY_PRINCIPAL),
        ("client_id", client_id, DEFAULT),
    ):
        if ANY in name and name != default:
            raise ValueError(f"`{key}` is {shown(name)}: a * in a name is no pattern")
    if client_id and (not _CLIENT_ID.fullmatch(client_id) or client_id != client_id.strip()):
        raise ValueError(
            f"`client_id` is {shown(client_id)}: clients can only have ids of at most 256 printable"
            " ASCII characters, without outer spaces"
        )
    if principal:
        principal = DEFAULT if principal == _ANY_PRINCIPAL else read_principal(principal)
    return Entity(principal, client_id)


def _name(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{key}` is {shown(value)}, not a name")
    return value


def _limits_in(table: Mapping[str, Any]) -> dict[Quota, int]:
    limits = {quota: table[name] for name, quota in _QUOTAS.items() if name in table}
    if not limits:
        raise ValueError(f"it limits nothing: it has none of {', '.join(_QUOTAS)}")
    for quota, most in limits.items():
        is_whole = isinstance(most, int) and not isinstance(most, bool)
        if not (is_whole and (most == UNLIMITED or 0 < most <= INT32_MAX)):
            text = repr(most) if is_whole or isinstance(most, float) else shown(most)
            value = text if len(text) <= _NUMBER_CHARACTERS_MAX else shown(most)
            raise ValueError(
                f"`{quota.value}` is {value}: it is a whole number from 1 to {INT32_MAX}, or -1"
                " for no limit"
            )
    return limits

"""Configurations of storage with an operator's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
from offsetd_storage.configuration.settings import canonical_name, settings_of, unknown_setting

if TYPE_CHECKING:
    from collections.abc import Mapping

_Config = TypeVar("_Config", bound=attrs.AttrsInstance)


def with_settings(config: _Config, texts: Mapping[str, str]) -> _Config:
    """`config` with an operator's values for some settings, by name.

    Raises InvalidSetting for a name that does not exist, and for a value that is not allowed.
    """
    settings = settings_of(type(config))
    fields = {setting.name: field for field, setting in settings.items()}
    changes = {}
    for name, written in texts.items():
        field = fields.get(canonical_name(name))
        if field is None:
            raise unknown_setting(name, fields)
        changes[field] = settings[field].parsed(written, is_internal=name not in fields)
    changed: _Config = attrs.evolve(cast("Any", config), **changes)
    return changed

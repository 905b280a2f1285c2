"""TOML files that operators write: their tables, and errors that help to mend them."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.security.acl import USER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_SHOWN_CHARACTERS_MAX: Final = 80


def tables_of(content: bytes | str, name: str) -> list[Any]:
    """The tables `[[name]]` of a file that has nothing else. Raises ValueError with one line."""
    document = document_of(content)
    if unknown := document.keys() - {name}:
        raise ValueError(f"unknown key {shown(min(unknown))} outside of the tables [[{name}]]")
    tables = document.get(name, [])
    if not isinstance(tables, list):
        problem = f"`{name}` is no list of tables: each begins with [[{name}]]"
        raise ValueError(problem)  # noqa: TRY004  # One error for all flaws.
    return tables


def read_principal(principal: str) -> str:
    """The principal. Raises ValueError if it is not one."""
    name = principal.removeprefix(USER_PREFIX)
    if not name or name == principal:
        raise ValueError(f"principal {shown(principal)} is not User:NAME")
    return principal


def document_of(content: bytes | str) -> dict[str, Any]:
    """What a file says. Raises ValueError with one line."""
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is not TOML: its values are nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not TOML: {error}") from None


def suggestion(word: str, known: Collection[str]) -> str:
    """A question for the word that was meant, if one is near."""
    by_small_letters = {each.lower(): each for each in sorted(known)}
    near = get_close_matches(word.lower()[:_SHOWN_CHARACTERS_MAX], by_small_letters, n=1)
    return f"; did you mean {by_small_letters[near[0]]}?" if near else ""


def listed(words: Iterable[str], last: str) -> str:
    """The words with commas, and `last` before the last one."""
    *others, final = words
    return f"{', '.join(others)} {last} {final}" if others else final


def shown(value: Any) -> str:
    """A value in one line, shortened. A number or a table has no text that is always short."""
    if isinstance(value, str):
        shown = repr(value)
        is_long = len(shown) > _SHOWN_CHARACTERS_MAX
        return shown[: _SHOWN_CHARACTERS_MAX - 1] + "…" if is_long else shown
    if isinstance(value, bool):
        return "true" if value else "false"
    kinds = ((int, "a number"), (float, "a number"), (list, "a list"), (dict, "a table"))
    return next((kind for type_, kind in kinds if isinstance(value, type_)), "a time")

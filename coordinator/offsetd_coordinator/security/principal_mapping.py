"""Names of principals from names in certificates: Kafka's `ssl.principal.mapping.rules`.

The rules are those of Kafka's `SslPrincipalMapper`: `DEFAULT`, or `RULE:pattern/replacement/`, with
`L` or `U` behind it for small or capital letters. A pattern has to match the whole name; then the
replacement takes the place of each match in the name. Patterns are Python's regular expressions:
what only Java has (`\\p{L}`, `\\Q`, `[a&&b]`) is refused, and `.` fits line ends other than `\\n`.
Rules with only a line end between them are refused: of these, Kafka takes the last one alone.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_coordinator.security.acl import USER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

_SETTING: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)"
    r"/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)",
)
# Kafka ignores empty rules, so several commas count as one.
_SEPARATOR: Final = re.compile(r"\s*(?:,[\s,]*|\Z)", re.ASCII)
_REPLACEMENT: Final = re.compile(r"\\(?P<escaped>.)|\$(?P<group>[0-9]+)|(?P<text>[^\\$]+)")
_REFERENCE: Final = re.compile(r"(?P<escapes>\\*)\$(?P<group>[1-9][0-9]*)")
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


@attrs.frozen
class _Rule:
    pattern: re.Pattern[str] | None = None  # None: DEFAULT.
    replacement: tuple[str | int, ...] = ()  # Texts, and numbers of groups.
    case: str = ""

    def name_of(self, distinguished_name: str) -> str | None:
        if self.pattern is None:
            return distinguished_name
        if self.pattern.fullmatch(distinguished_name) is None:
            return None
        return _CASES[self.case](self._all_replaced(self.pattern, distinguished_name))

    def _all_replaced(self, pattern: re.Pattern[str], name: str) -> str:
        """Java's `replaceAll`: unlike `re.sub`, it tries no place twice after an empty match."""
        parts, kept, start = "", 0, 0
        while start <= len(name) and (found := pattern.search(name, start)) is not None:
            parts += name[kept : found.start()] + self._replaced(found)
            kept = found.end()
            start = kept + (not found[0])
        return parts + name[kept:]

    def _replaced(self, found: re.Match[str]) -> str:
        return "".join(
            part if isinstance(part, str) else found[part] or "" for part in self.replacement
        )


@attrs.frozen
class PrincipalMapper:
    """Makes principals of distinguished names."""

    _rules: tuple[_Rule, ...]

    def principal_of(self, distinguished_name: str) -> str | None:
        """`User:NAME` by the first rule that fits, or None if no rule does or the name is empty."""
        for rule in self._rules:
            name = rule.name_of(distinguished_name)
            if name is not None:
                return USER_PREFIX + name if name else None
        return None


def parse_mapping_rules(text: str) -> PrincipalMapper:
    """The mapper of some rules, with commas between them.

    Raises ValueError with one line, also for a replacement that fails in Kafka at each name.
    """
    rules: list[_Rule] = []
    text = text.strip(", \t\n\v\f\r")
    position = 0
    while position < len(text) or not rules:
        found = _RULE.match(text, position)
        end = None if found is None else _SEPARATOR.match(text, found.end())
        if found is None or end is None:
            raise ValueError(
                f"{_SETTING}: {text[position:]!r} is not DEFAULT or RULE:pattern/replacement/[LU]"
            )
        rules.append(_rule(found))
        position = end.end()
    return PrincipalMapper(tuple(rules))


def _rule(found: re.Match[str]) -> _Rule:
    if found["default"]:
        return _Rule()
    try:
        pattern = _pattern(found["pattern"])
        return _Rule(pattern, _replacement(found["replacement"], pattern.groups), found["case"])
    except ValueError as error:
        raise ValueError(f"{_SETTING}: {found[0]!r}: {error}") from error


def _pattern(text: str) -> re.Pattern[str]:
    try:
        # Python warns of sets that Java reads in another way.
        with warnings.catch_warnings(action="error"):
            return re.compile(text, re.ASCII)
    except (re.error, ValueError, OverflowError, RecursionError, Warning) as error:
        raise ValueError(f"not a regular expression: {str(error)!r}") from error


def _replacement(text: str, groups: int) -> tuple[str | int, ...]:
    """The parts of a replacement. `groups` is how many groups the pattern has."""
    _check_references(text, groups)
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        found = _REPLACEMENT.match(text, position)
        if found is None:
            raise ValueError("a $ without a number; a dollar sign is \\$")
        position = found.end()
        if found["group"]:
            parts += _group(found["group"], groups)
        else:
            parts.append(found["escaped"] or found["text"])
    return tuple(parts)


def _check_references(text: str, groups: int) -> None:
    """Refuses references to missing groups that Kafka does not take for letters: it fails."""
    missing = [each for each in _REFERENCE.finditer(text) if int(each["group"][0]) > groups]
    is_escaped = any(len(each["escapes"]) % 2 for each in missing)
    if groups and (is_escaped or len(missing) > 1):
        raise ValueError(f"the pattern has no group ${missing[-1]['group']}")


def _group(digits: str, groups: int) -> list[str | int]:
    """As many digits as make the number of a group; as in Kafka, `$` is a letter if none do."""
    if int(digits[0]) > groups:
        if not groups:
            raise ValueError(f"the pattern has no group ${digits}")
        return [f"${digits}"]
    used = 1
    while used < len(digits) and int(digits[: used + 1]) <= groups:
        used += 1
    return [int(digits[:used]), digits[used:]]

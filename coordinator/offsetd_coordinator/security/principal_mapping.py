"""Names of principals from names in certificates: Kafka's `ssl.principal.mapping.rules`.

The rules are those of Kafka's `SslPrincipalMapper`: `DEFAULT`, or `RULE:pattern/replacement/`, with
`L` or `U` behind it for small or capital letters. Patterns are regular expressions of Python, which
agree with Java's in what such rules use; a pattern has to match the whole name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_coordinator.security.acl import USER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)"
    r"/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)",
    re.DOTALL,
)
_SEPARATOR: Final = re.compile(r"\s*,\s*|\s*$")
_GROUP: Final = re.compile(r"\$(\d+)")
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


@attrs.frozen
class _Rule:
    pattern: re.Pattern[str] | None = None  # None: DEFAULT.
    replacement: str = ""
    case: str = ""

    def name_of(self, distinguished_name: str) -> str | None:
        if self.pattern is None:
            return distinguished_name
        found = self.pattern.fullmatch(distinguished_name)
        if found is None:
            return None
        name = _GROUP.sub(lambda group: found[int(group[1])] or "", self.replacement)
        return _CASES[self.case](name)


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
    """The mapper of some rules, with commas between them. Raises ValueError."""
    rules: list[_Rule] = []
    position, text = 0, text.strip()
    while True:
        found = _RULE.match(text, position)
        end = None if found is None else _SEPARATOR.match(text, found.end())
        if found is None or end is None:
            raise ValueError(
                f"ssl.principal.mapping.rules: {text[position:]!r} is not DEFAULT or"
                " RULE:pattern/replacement/[LU]"
            )
        rules.append(_rule(found))
        position = end.end()
        if position == len(text):
            if text.endswith(","):
                raise ValueError("ssl.principal.mapping.rules: a rule is missing after the comma")
            return PrincipalMapper(tuple(rules))


def _rule(found: re.Match[str]) -> _Rule:
    if found["default"]:
        return _Rule()
    told = f"ssl.principal.mapping.rules: {found[0]!r}"
    try:
        pattern = re.compile(found["pattern"].replace(r"\/", "/"), re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{told}: the pattern is no regular expression: {error}") from error
    replacement = re.sub(r"\\(.)", r"\1", found["replacement"])
    for group in _GROUP.findall(replacement):
        if int(group) > pattern.groups:
            raise ValueError(f"{told}: the pattern has no group ${group}")
    return _Rule(pattern, replacement, found["case"])

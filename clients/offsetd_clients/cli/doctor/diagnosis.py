"""The result of a check: a grade, the fact, and the remedy."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

import attrs

FactsT = TypeVar("FactsT")


class Grade(StrEnum):
    """BAD: it does harm now, or will soon. WARN: it may do harm."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@attrs.frozen
class Finding:
    """Something that is wrong. `remedy` says what to do."""

    grade: Grade
    what: str
    remedy: str


Check = Callable[[FactsT], Iterator[Finding]]


def warn(what: str, remedy: str) -> Finding:
    """A finding that may do harm."""
    return Finding(Grade.WARN, what, remedy)


def bad(what: str, remedy: str) -> Finding:
    """A finding that does harm, or will soon."""
    return Finding(Grade.BAD, what, remedy)


def diagnosed(checks: Mapping[str, Check[FactsT]], facts: FactsT) -> Iterator[tuple[str, Finding]]:
    """What each check finds, with its name. A check that finds nothing gets the grade OK."""
    for name, check in checks.items():
        found: Iterable[Finding] = list(check(facts)) or [Finding(Grade.OK, "", "")]
        for finding in found:
            yield name, finding

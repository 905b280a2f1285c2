"""Measures decisions by rules: 10,000 rules for 1,000 principals, remembered decisions and others.

Each principal has ten rules: whole names and prefixes of groups and topics, and one that denies.
Ten more are for everyone. `remembered` is a question that was asked before. `first question`
arranges the rules of its principal. `one principal` has all the rules alone.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.security.acl import (
    EVERYONE,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from offsetd_coordinator.security.acl_index import AclIndex
from offsetd_coordinator.security.authorizer import Authorizer

from benchmarks.harness.rounds import Spread, interleave

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PRINCIPALS: Final = 1000
RULES_OF_EACH: Final = 10
QUESTIONS: Final = 20_000
_HOST: Final = "10.0.0.1"
_SEED: Final = 23

_Question = tuple[str, str, Operation, ResourceType, str]


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Nanoseconds a decision. `scale` changes the number of principals."""
    principals = [f"User:CN=app-{number}" for number in range(max(1, round(PRINCIPALS * scale)))]
    acls = [
        *(acl for principal in principals for acl in _rules(principal, RULES_OF_EACH)),
        *_rules(EVERYONE, RULES_OF_EACH),
    ]
    alone = [*_rules(principals[0], len(acls))]
    questions, lone_questions = _questions(principals), _questions(principals[:1])
    first_questions = _questions(principals, count=len(principals))
    remembering, many, one = Authorizer(acls=acls), AclIndex(acls), AclIndex(alone)
    _nanoseconds(remembering.allows, questions)
    _nanoseconds(many.decide, questions)
    _nanoseconds(one.decide, lone_questions)
    figures = interleave(
        {
            "remembered, ns": lambda: _nanoseconds(remembering.allows, questions),
            "not remembered, ns": lambda: _nanoseconds(many.decide, questions),
            "one principal, not remembered, ns": lambda: _nanoseconds(one.decide, lone_questions),
            "first question, ns": lambda: _nanoseconds(AclIndex(acls).decide, first_questions),
            "new rules, ms": lambda: _change_ms(acls),
        },
        rounds=rounds,
    )
    return {f"{len(acls):,} rules: {name}": Spread.of(each) for name, each in figures.items()}


def _rules(principal: str, count: int) -> list[Acl]:
    """Rules of three kinds: a whole name, a prefix, and every tenth denies a prefix."""
    return [
        Acl(
            principal=principal,
            permission=Permission.DENY if number % 10 == 9 else Permission.ALLOW,
            operation=Operation.READ,
            resource_type=ResourceType.TOPIC if number % 4 == 3 else ResourceType.GROUP,
            name=f"team-{number % 97}.service-{number}.",
            pattern=PatternType.PREFIXED if number % 3 else PatternType.LITERAL,
        )
        for number in range(count)
    ]


def _questions(principals: Sequence[str], count: int = QUESTIONS) -> list[_Question]:
    """Of the principals in turn, about names that differ."""
    chance = random.Random(_SEED)
    return [
        (
            principals[number % len(principals)],
            _HOST,
            chance.choice((Operation.READ, Operation.DESCRIBE)),
            ResourceType.GROUP,
            f"team-{number % 97}.service-{number % RULES_OF_EACH}.{chance.randrange(100)}",
        )
        for number in range(count)
    ]


def _nanoseconds(decide: Callable[..., object], questions: Sequence[_Question]) -> float:
    """The time of a question, with that of the loop, which is short."""
    begun_ns = time.perf_counter_ns()
    for principal, host, operation, resource_type, name in questions:
        decide(principal, host, operation, resource_type, name)
    return (time.perf_counter_ns() - begun_ns) / len(questions)


def _change_ms(acls: Sequence[Acl]) -> float:
    authorizer = Authorizer()
    begun_s = time.perf_counter()
    authorizer.set_acls(acls)
    return (time.perf_counter() - begun_s) * 1000

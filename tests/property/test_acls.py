"""Random rules: decided as a plain reading of Kafka's documentation decides, remembered or not.

And random files of rules: they are rules, or an error.
"""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING

import attrs
import hypothesis
from hypothesis import event, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from offsetd_coordinator.security.acl import (
    CLUSTER_NAME,
    EVERYONE,
    OPERATIONS_OF,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from offsetd_coordinator.security.acl_file import InvalidAclFile, parse_acl_file
from offsetd_coordinator.security.acl_index import AclIndex
from offsetd_coordinator.security.authorizer import Authorizer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import DrawFn, SearchStrategy

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
FUZZED = hypothesis.settings(max_examples=50_000 if NIGHTLY else 400)
DECIDED = hypothesis.settings(max_examples=50_000 if NIGHTLY else 300)
CALLERS = ["User:a", "User:b", "User:ANONYMOUS"]
HOSTS = ["10.0.0.1", "10.0.0.2"]
# A text that no rule's name has: so a name with it at the end is covered by prefixes only.
UNUSED = "~"

# Often short ones of few letters, so that some begin with others.
names = st.one_of(
    st.text("ab", min_size=1, max_size=3),
    st.text("ab", min_size=1, max_size=3),
    st.text("ab*é\U0001f600", min_size=1, max_size=4),
    st.sampled_from("*a"),
)


@st.composite
def acls(draw: DrawFn) -> Acl:
    resource_type = draw(st.sampled_from(ResourceType))
    is_cluster = resource_type is ResourceType.CLUSTER
    return Acl(
        principal=draw(st.sampled_from([*CALLERS, EVERYONE])),
        host=draw(st.sampled_from(["*", "*", *HOSTS])),
        permission=draw(st.sampled_from([Permission.ALLOW] * 3 + [Permission.DENY])),
        operation=draw(
            st.sampled_from(sorted(OPERATIONS_OF[resource_type], key=lambda each: each.value))
        ),
        resource_type=resource_type,
        name=CLUSTER_NAME if is_cluster else draw(names),
        pattern=PatternType.LITERAL if is_cluster else draw(st.sampled_from(PatternType)),
    )


@st.composite
def rule_lists(draw: DrawFn) -> list[Acl]:
    """Rules of all kinds; or rules for one caller, type and operation, so that their names meet."""
    rules = draw(st.lists(acls(), max_size=12))
    alike = [acl for acl in rules if acl.resource_type is not ResourceType.CLUSTER]
    if not alike or draw(st.booleans()):
        return rules
    return [
        attrs.evolve(alike[0], name=acl.name, permission=acl.permission, pattern=acl.pattern)
        for acl in alike
    ]


Action = tuple[str, str, Operation, ResourceType]

callers = st.tuples(st.sampled_from(CALLERS), st.sampled_from(HOSTS))
actions = st.tuples(
    st.sampled_from(CALLERS),
    st.sampled_from(HOSTS),
    st.sampled_from(Operation),
    st.sampled_from(ResourceType),
)


@st.composite
def questions(draw: DrawFn) -> tuple[list[Acl], Action]:
    """Rules, and who wants to do what; mostly something that a rule is about."""
    rules = draw(rule_lists())
    principal, host, operation, resource_type = draw(actions)
    if rules and draw(st.sampled_from([True, True, True, False])):
        acl = draw(st.sampled_from(rules))
        principal = principal if acl.principal == EVERYONE else acl.principal
        host = host if acl.host == "*" else acl.host
        operation = draw(st.sampled_from([acl.operation, Operation.DESCRIBE]))
        resource_type = acl.resource_type
    return rules, (principal, host, operation, resource_type)


def is_about(acl: Acl, principal: str, host: str, resource_type: ResourceType, name: str) -> bool:
    """Whether a rule is for this caller and this resource."""
    if acl.pattern is PatternType.PREFIXED:
        has_name = name[: len(acl.name)] == acl.name
    else:
        has_name = acl.name in ("*", name)
    return (
        (acl.principal in (principal, "User:*"))
        and (acl.host in (host, "*"))
        and acl.resource_type is resource_type
        and has_name
    )


def allowed_operations(acl: Acl) -> set[Operation]:
    """What a rule allows: its operation, and those that Kafka's documentation says it implies."""
    allowed = {acl.operation}
    if acl.operation in (Operation.READ, Operation.DELETE, Operation.ALTER):
        allowed.add(Operation.DESCRIBE)
    if acl.operation is Operation.ALTER_CONFIGS:
        allowed.add(Operation.DESCRIBE_CONFIGS)
    return set(Operation) if acl.operation is Operation.ALL else allowed


def decides(acl: Acl, operation: Operation) -> bool:
    if acl.permission is Permission.DENY:
        return acl.operation in (operation, Operation.ALL)
    return operation in allowed_operations(acl)


def expected(
    rules: Iterable[Acl],
    principal: str,
    host: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
) -> bool:
    """The answer of a plain reading: some rule allows it, and none denies it."""
    said = {
        acl.permission
        for acl in rules
        if is_about(acl, principal, host, resource_type, name) and decides(acl, operation)
    }
    return said == {Permission.ALLOW}


def witnesses(rules: Iterable[Acl], resource_type: ResourceType) -> set[str]:
    """Names that stand for all: each one in a rule, and one behind it; and one in no rule."""
    if resource_type is ResourceType.CLUSTER:
        return {CLUSTER_NAME}
    named = {acl.name for acl in rules} | {""}
    return named | {name + UNUSED for name in named}


@DECIDED
@given(questions(), st.text("ab*é\U0001f600", max_size=6))
def test_a_decision_is_that_of_a_plain_reading(
    asked: tuple[list[Acl], Action], some_name: str
) -> None:
    rules, action = asked
    principal, host, operation, resource_type = action
    index = AclIndex(rules)
    for name in sorted({some_name} | witnesses(rules, resource_type)):
        decision = index.decide(*action, name)
        assert decision.is_allowed == expected(rules, *action, name)
        if decision.acl is None:
            assert not any(
                is_about(acl, principal, host, resource_type, name) and decides(acl, operation)
                for acl in rules
            )
            continue
        event("allowed" if decision.is_allowed else "denied")
        assert decision.acl in rules
        assert is_about(decision.acl, principal, host, resource_type, name)
        assert decides(decision.acl, operation)
        assert (decision.acl.permission is Permission.ALLOW) == decision.is_allowed


@DECIDED
@given(questions())
def test_what_is_said_of_every_name_agrees_with_each(
    asked: tuple[list[Acl], Action],
) -> None:
    rules, action = asked
    principal, host, operation, resource_type = action
    index = AclIndex(rules)
    allowed = {name for name in witnesses(rules, resource_type) if expected(rules, *action, name)}
    about = [
        acl
        for acl in rules
        if acl.resource_type is resource_type
        and acl.principal in (principal, EVERYONE)
        and acl.host in (host, "*")
        and decides(acl, operation)
    ]
    assert index.allows_all(*action) == (
        any(acl.name == "*" and acl.pattern is PatternType.LITERAL for acl in about)
        and all(acl.permission is Permission.ALLOW for acl in about)
    )
    if index.allows_all(*action):
        assert allowed == witnesses(rules, resource_type)


class RememberedDecisions(RuleBasedStateMachine):
    """An authorizer that is asked again and again while its rules change."""

    def __init__(self) -> None:
        super().__init__()
        self.authorizer = Authorizer(super_users=frozenset({"User:b"}))
        self.acls: list[Acl] = []
        self.index = AclIndex([])

    @rule(acls=rule_lists())
    def change(self, acls: list[Acl]) -> None:
        version = self.authorizer.version
        self.authorizer.set_acls(acls)
        self.acls = acls
        self.index = AclIndex(acls)
        assert self.authorizer.version > version
        assert self.authorizer.acls == tuple(acls)

    @rule(caller=callers, name=names)
    def ask(self, caller: tuple[str, str], name: str) -> None:
        for resource_type, operation in itertools.product(ResourceType, Operation):
            self._ask((*caller, operation, resource_type), name)

    @rule(rules=st.lists(acls(), min_size=1, max_size=2), caller=callers, name=names)
    def ask_around_a_change(self, rules: list[Acl], caller: tuple[str, str], name: str) -> None:
        """The same questions before and after a change, which random ones seldom are."""
        self.ask(caller, name)
        self.change([*self.acls[:4], *rules])
        self.ask(caller, name)

    def _ask(self, action: Action, name: str) -> None:
        is_super_user = action[0] == "User:b"
        answer = is_super_user or expected(self.acls, *action, name)
        assert self.authorizer.allows(*action, name) == answer
        explanation = self.authorizer.explain(*action, name)
        assert (explanation.is_allowed, explanation.is_super_user) == (answer, is_super_user)
        every = is_super_user or self.index.allows_all(*action)
        assert self.authorizer.allows_all(*action) == every


TestRememberedDecisions = RememberedDecisions.TestCase
TestRememberedDecisions.settings = hypothesis.settings(
    max_examples=2000 if NIGHTLY else 30, stateful_step_count=15
)


def table_text(rules: list[Acl]) -> str:
    """A file with a table for each rule."""
    permissions = {Permission.ALLOW: "allow", Permission.DENY: "deny"}
    tables = []
    for acl in rules:
        kind = acl.resource_type.value.lower()
        if acl.resource_type is ResourceType.CLUSTER:
            resource = "cluster = true"
        else:
            suffix = "_prefix" if acl.pattern is PatternType.PREFIXED else ""
            resource = f"{kind}{suffix} = {json.dumps(acl.name, ensure_ascii=False)}"
        tables.append(
            f"[[acl]]\nprincipal = {json.dumps(acl.principal)}\nhost = {json.dumps(acl.host)}\n"
            f"{permissions[acl.permission]} = [{json.dumps(acl.operation.value)}]\n{resource}\n"
        )
    return "\n".join(tables)


def can_be_written(acl: Acl) -> bool:
    """A file has no rule for a name in which * is a character like others."""
    return "*" not in acl.name or (acl.name == "*" and acl.pattern is PatternType.LITERAL)


@DECIDED
@given(st.lists(acls().filter(can_be_written), max_size=6, unique=True))
def test_a_file_has_the_rules_that_it_says(rules: list[Acl]) -> None:
    text = table_text(rules)
    assert parse_acl_file(text) == parse_acl_file(text.encode()) == tuple(rules)


TOKENS = st.sampled_from(
    [
        *("[[acl]]\n", "[acl]\n", "acl = [", "]", "}", "{", "\n", " = ", ", ", '"', "'''", "\\"),
        *("principal", "principals", "host", "hosts", "allow", "deny", "group", "group_prefix"),
        *("topic", "topic_prefix", "cluster", "true", "false", '"User:a"', '["User:a", "User:*"]'),
        *('["Read"]', '["All", "Alter"]', '"*"', '"a"', '"10.0.0.1"', "1", "0x1", "1979-05-27"),
        *("\x00", "\r", "\ufeff", "\ud800", "é", "a.b", "#"),
    ]
)


@st.composite
def altered(draw: DrawFn) -> str:
    """A right file with some pieces taken out, put in or exchanged."""
    text = table_text(draw(st.lists(acls(), max_size=3)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        until = draw(st.integers(place, min(len(text), place + 12)))
        text = text[:place] + draw(TOKENS | st.text(max_size=3)) + text[until:]
    return text


def contents() -> SearchStrategy[bytes]:
    texts = st.text() | altered() | st.lists(TOKENS, max_size=30).map("".join)
    return st.binary() | texts.map(lambda text: text.encode("utf-8", "surrogatepass"))


@FUZZED
@given(contents())
def test_a_content_is_rules_or_an_error_of_one_short_line(content: bytes) -> None:
    try:
        rules = parse_acl_file(content, "acls.toml")
    except InvalidAclFile as error:
        told = str(error)
        assert told.startswith("acls.toml: ")
        assert "\n" not in told
        assert len(told) < 400
        return
    event(f"{min(len(rules), 2)} rules")
    assert len(set(rules)) == len(rules)
    AclIndex(rules).decide(CALLERS[0], HOSTS[0], Operation.READ, ResourceType.GROUP, "a")

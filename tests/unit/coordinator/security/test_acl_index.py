"""What rules decide: the facts of Kafka's documentation of its authorizer, one by one.

`kafka.apache.org/documentation`, Security, Authorization and ACLs.
"""

from __future__ import annotations

import pytest
from offsetd_coordinator.security.acl import (
    CLUSTER_NAME,
    EVERYONE,
    IMPLIED_BY,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from offsetd_coordinator.security.acl_index import AclIndex

ALICE, BOB = "User:alice", "User:bob"
HOST, OTHER_HOST = "10.0.0.1", "10.0.0.2"
GROUP, TOPIC, CLUSTER = ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER
READ, DELETE, ALTER = Operation.READ, Operation.DELETE, Operation.ALTER
DESCRIBE, ALL = Operation.DESCRIBE, Operation.ALL
ACTIONS = [operation for operation in Operation if operation is not ALL]


def allow(
    name: str,
    operation: Operation = READ,
    *,
    principal: str = ALICE,
    host: str = "*",
    resource_type: ResourceType = GROUP,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(
        principal=principal,
        host=host,
        permission=permission,
        operation=operation,
        resource_type=resource_type,
        name=name,
        pattern=pattern,
    )


def deny(
    name: str,
    operation: Operation = READ,
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return allow(
        name,
        operation,
        principal=principal,
        host=host,
        pattern=pattern,
        permission=Permission.DENY,
    )


def is_allowed(
    acls: list[Acl],
    name: str,
    operation: Operation = READ,
    *,
    principal: str = ALICE,
    host: str = HOST,
    resource_type: ResourceType = GROUP,
) -> bool:
    return AclIndex(acls).decide(principal, host, operation, resource_type, name).is_allowed


def test_without_a_rule_nothing_is_allowed() -> None:
    decision = AclIndex([]).decide(ALICE, HOST, READ, GROUP, "billing")
    assert decision == (False, None)


def test_a_rule_allows_its_principal_its_name_and_its_operation_only() -> None:
    rule = allow("billing")
    assert AclIndex([rule]).decide(ALICE, HOST, READ, GROUP, "billing") == (True, rule)
    assert not is_allowed([rule], "billing", principal=BOB)
    assert not is_allowed([rule], "billing", principal="User:alice2")
    assert not is_allowed([rule], "billing2")
    assert not is_allowed([rule], "Billing")
    assert not is_allowed([rule], "billing", DELETE)
    assert not is_allowed([rule], "billing", resource_type=TOPIC)


def test_a_rule_for_everyone_counts_for_each_caller() -> None:
    rule = allow("billing", principal=EVERYONE)
    assert is_allowed([rule], "billing", principal=BOB)
    assert is_allowed([rule], "billing", principal="User:ANONYMOUS")


def test_a_rule_for_a_host_counts_for_callers_from_there() -> None:
    rule = allow("billing", host=HOST)
    assert is_allowed([rule], "billing", host=HOST)
    assert not is_allowed([rule], "billing", host=OTHER_HOST)
    assert not is_allowed([rule], "billing", host="")
    assert is_allowed([allow("billing")], "billing", host="")


def test_the_literal_name_star_is_every_name() -> None:
    assert is_allowed([allow("*")], "billing")
    assert is_allowed([allow("*")], "*")
    assert is_allowed([allow("*")], "")


def test_a_star_within_a_name_is_no_pattern() -> None:
    assert not is_allowed([allow("bill*")], "billing")
    assert is_allowed([allow("bill*")], "bill*")


def test_a_prefixed_rule_is_for_names_that_begin_with_its_name() -> None:
    rules = [allow("billing-", pattern=PatternType.PREFIXED)]
    assert is_allowed(rules, "billing-")
    assert is_allowed(rules, "billing-eu")
    assert not is_allowed(rules, "billing")
    assert not is_allowed(rules, "eu-billing-")
    assert not is_allowed(rules, "Billing-eu")


def test_a_prefixed_star_is_not_every_name() -> None:
    rules = [allow("*", pattern=PatternType.PREFIXED)]
    assert is_allowed(rules, "*a")
    assert not is_allowed(rules, "a")


def test_of_many_prefixes_the_right_one_is_found() -> None:
    prefixes = ["a", "b-", "b-1", "b-10", "b-2", "c", "d-x", "é"]
    rules = [allow(each, pattern=PatternType.PREFIXED) for each in prefixes]
    assert is_allowed(rules, "b-10-x")
    assert is_allowed(rules, "b-3")
    assert is_allowed(rules, "élan")
    assert not is_allowed(rules, "b")
    assert not is_allowed(rules, "d-w")
    assert not is_allowed(rules, "d-y")
    assert not is_allowed(rules, "A")


@pytest.mark.parametrize(
    "denial",
    [
        deny("billing"),
        deny("*"),
        deny("bill", pattern=PatternType.PREFIXED),
        deny("billing", ALL),
        deny("billing", principal=EVERYONE),
        deny("billing", host=HOST),
    ],
    ids=str,
)
def test_a_rule_that_denies_wins_over_all_that_allow(denial: Acl) -> None:
    rules = [allow("billing"), allow("*", ALL), allow("billing", host=HOST), denial]
    for acls in (rules, rules[::-1]):
        assert AclIndex(acls).decide(ALICE, HOST, READ, GROUP, "billing") == (False, denial)


@pytest.mark.parametrize(
    "denial",
    [
        deny("billing2"),
        deny("billing-", pattern=PatternType.PREFIXED),
        deny("billing", DELETE),
        deny("billing", principal=BOB),
        deny("billing", host=OTHER_HOST),
    ],
    ids=str,
)
def test_a_rule_that_denies_something_else_changes_nothing(denial: Acl) -> None:
    assert is_allowed([denial, allow("billing")], "billing")


@pytest.mark.parametrize("operation", ACTIONS)
def test_the_operation_all_is_each_operation(operation: Operation) -> None:
    assert is_allowed([allow("billing", ALL)], "billing", operation)
    assert not is_allowed([allow("*", ALL), deny("billing", ALL)], "billing", operation)


@pytest.mark.parametrize("operation", [READ, DELETE, ALTER])
def test_what_allows_an_operation_allows_to_describe(operation: Operation) -> None:
    assert is_allowed([allow("billing", operation)], "billing", DESCRIBE)
    assert not is_allowed([allow("billing", DESCRIBE)], "billing", operation)


def test_to_alter_the_configuration_allows_to_describe_it() -> None:
    rule = allow(CLUSTER_NAME, Operation.ALTER_CONFIGS, resource_type=CLUSTER)
    for operation, expected in ((Operation.DESCRIBE_CONFIGS, True), (DESCRIBE, False)):
        decision = AclIndex([rule]).decide(ALICE, HOST, operation, CLUSTER, CLUSTER_NAME)
        assert decision.is_allowed is expected


def test_nothing_else_is_implied() -> None:
    for rule in (each for each in ACTIONS if each in (READ, DELETE, ALTER, DESCRIBE)):
        for asked in ACTIONS:
            expected = asked is rule or rule in IMPLIED_BY.get(asked, ())
            assert is_allowed([allow("billing", rule)], "billing", asked) is expected


@pytest.mark.parametrize("operation", [READ, DELETE, ALTER])
def test_a_denied_operation_does_not_deny_what_it_implies(operation: Operation) -> None:
    rules = [deny("billing", operation), allow("billing", DESCRIBE)]
    assert is_allowed(rules, "billing", DESCRIBE)


def test_a_denied_description_is_denied_though_another_rule_implies_it() -> None:
    rules = [deny("billing", DESCRIBE), allow("billing", READ)]
    assert not is_allowed(rules, "billing", DESCRIBE)
    assert is_allowed(rules, "billing", READ)


def test_everything_is_allowed_by_a_star_that_no_rule_limits() -> None:
    def allows_all(*acls: Acl) -> bool:
        return AclIndex(acls).allows_all(ALICE, HOST, READ, GROUP)

    every = allow("*")
    assert allows_all(every)
    assert allows_all(allow("*", ALL, principal=EVERYONE))
    assert allows_all(every, deny("a", principal=BOB), deny("a", DELETE), deny("a", host="1::"))
    assert not allows_all()
    assert not allows_all(allow("a"), allow("a", pattern=PatternType.PREFIXED))
    assert not allows_all(every, deny("a"))
    assert not allows_all(every, deny("a", ALL, principal=EVERYONE))
    assert not allows_all(every, deny("a", pattern=PatternType.PREFIXED))

"""Filters of access rules: which rules are meant."""

from __future__ import annotations

import random
from typing import Any

import pytest
from offsetd_coordinator.configuration.acl_filter import AclFilter, PatternFilter, acl_order
from offsetd_coordinator.security.acl import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


def acl(**fields: Any) -> Acl:
    """A rule; what is not named is like in the first of `ACLS`."""
    return Acl(
        **{
            "principal": "User:a",
            "permission": Permission.ALLOW,
            "operation": Operation.READ,
            "resource_type": ResourceType.GROUP,
            "name": "billing",
            **fields,
        }
    )


ACLS = {
    "billing": acl(),
    "prefix bill": acl(name="bill", pattern=PatternType.PREFIXED),
    "prefix billing": acl(pattern=PatternType.PREFIXED),
    "prefix billing-eu": acl(name="billing-eu", pattern=PatternType.PREFIXED),
    "all": acl(name="*"),
    "prefix *": acl(name="*", pattern=PatternType.PREFIXED),
    "other": acl(name="other"),
    "topic": acl(name="billing", resource_type=ResourceType.TOPIC),
    "cluster": acl(
        resource_type=ResourceType.CLUSTER, name=CLUSTER_NAME, operation=Operation.ALTER
    ),
    "deny": acl(permission=Permission.DENY, principal="User:*", host="10.0.0.1"),
}


def meant(**fields: Any) -> set[str]:
    """The names of the rules that a filter means."""
    wanted = AclFilter(**fields)
    return {name for name, each in ACLS.items() if wanted.matches(each)}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, set(ACLS)),
        ({"resource_type": ResourceType.TOPIC}, {"topic"}),
        ({"principal": "User:*"}, {"deny"}),
        ({"principal": "User:b"}, set()),
        ({"host": "10.0.0.1"}, {"deny"}),
        ({"permission": Permission.DENY}, {"deny"}),
        ({"operation": Operation.ALTER}, {"cluster"}),
        ({"name": "other"}, {"other"}),
        ({"name": "billing"}, {"billing", "prefix billing", "topic", "deny"}),
        ({"name": "billing", "pattern": PatternFilter.LITERAL}, {"billing", "topic", "deny"}),
        ({"name": "billing", "pattern": PatternFilter.PREFIXED}, {"prefix billing"}),
        (
            {"pattern": PatternFilter.PREFIXED},
            {"prefix bill", "prefix billing", "prefix billing-eu", "prefix *"},
        ),
        ({"name": "*", "pattern": PatternFilter.LITERAL}, {"all"}),
        (
            {
                "name": "billing",
                "pattern": PatternFilter.MATCH,
                "resource_type": ResourceType.GROUP,
            },
            {"billing", "prefix bill", "prefix billing", "all", "deny"},
        ),
        (
            {"name": "billing-eu", "pattern": PatternFilter.MATCH},
            {"prefix bill", "prefix billing", "prefix billing-eu", "all"},
        ),
        ({"pattern": PatternFilter.MATCH, "resource_type": ResourceType.TOPIC}, {"topic"}),
    ],
)
def test_a_filter_means_the_rules_that_agree_with_all_its_fields(
    fields: dict[str, Any], names: set[str]
) -> None:
    assert meant(**fields) == names


def test_rules_have_one_order_by_resource_first() -> None:
    shuffled = list(ACLS.values())
    random.Random(1).shuffle(shuffled)
    ordered = sorted(shuffled, key=acl_order)
    assert ordered == sorted(ACLS.values(), key=acl_order)
    assert [each.resource_type for each in ordered] == [
        ResourceType.TOPIC,
        *[ResourceType.GROUP] * 8,
        ResourceType.CLUSTER,
    ]
    assert len({acl_order(each) for each in ordered}) == len(ordered)

"""Requests about access rules that are wrong: each is refused as a whole, with its field."""

from __future__ import annotations

from typing import Any

import pytest
from offsetd.v1 import acl_service_pb2 as pb
from offsetd_coordinator import errors
from offsetd_coordinator.messages.field_counts import ACL_FILTERS_MAX, ACLS_MAX
from served_acls import acl, rules


def number_in(field: str, number: int) -> pb.AclFilter:
    """A filter with a number that the contract does not have."""
    return pb.AclFilter(**{field: number})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"principal": "a"}, ".principal", "not User:NAME"),
        ({"principal": "User:"}, ".principal", "not User:NAME"),
        ({"principal": "User:" + "é" * 510}, ".principal", "1025 bytes"),
        ({"host": "example.com"}, ".host", "not an IP address"),
        ({"host": "10.0.0.1:80"}, ".host", "not an IP address"),
        ({"permission": "ACL_PERMISSION_UNSPECIFIED"}, ".permission", "missing"),
        ({"permission": 1}, ".permission", "1, which is not known"),
        ({"operation": "ACL_OPERATION_UNSPECIFIED"}, ".operation", "missing"),
        ({"operation": 4}, ".operation", "4, which is not known"),
        ({"operation": "ACL_OPERATION_CLUSTER_ACTION"}, "", "not an operation of Group"),
        ({"resource_type": "RESOURCE_TYPE_UNSPECIFIED"}, ".resource_type", "missing"),
        ({"resource_type": 5}, ".resource_type", "5, which is not known"),
        ({"pattern_type": "PATTERN_TYPE_MATCH"}, ".pattern_type", "2, which is not known"),
        ({"pattern_type": "PATTERN_TYPE_ANY"}, ".pattern_type", "1, which is not known"),
        ({"name": ""}, ".name", "no name"),
        ({"name": "x" * 32_768}, ".name", "32768 bytes"),
        ({"name": "x" * 250, "resource_type": "RESOURCE_TYPE_TOPIC"}, ".name", "250 UTF-16"),
        (
            {"resource_type": "RESOURCE_TYPE_CLUSTER", "operation": "ACL_OPERATION_ALTER"},
            "",
            "kafka-cluster",
        ),
    ],
)
async def test_a_wrong_rule_is_refused_with_all_others(
    wrong: dict[str, Any], field: str, words: str
) -> None:
    async with rules() as each:
        bad = acl(**{"name": "n", **wrong})
        for call in (each.add(acl(), bad), each.remove(acls=[acl(), bad])):
            with pytest.raises(errors.InvalidField) as refused:
                await call
            assert refused.value.field == f"acls[1]{field}"
            assert words in str(refused.value)
        assert each.ends() == (0, 0)


@pytest.mark.parametrize(
    ("call", "fields", "field"),
    [
        ("add", {}, "acls"),
        ("remove", {}, "filters"),
        (
            "remove",
            {"filters": [pb.AclFilter(), number_in("operation", 99)]},
            "filters[1].operation",
        ),
        ("listed", {"filter": number_in("pattern_type", 9)}, "filter.pattern_type"),
        ("listed", {"page_size": -1}, "page_size"),
        ("remove", {"filters": [pb.AclFilter()] * (ACL_FILTERS_MAX + 1)}, "filters"),
        ("remove", {"acls": [acl()] * (ACLS_MAX + 1)}, "acls"),
        ("remove", {"acls": [acl()], "reason": "x" * 1025}, "reason"),
        ("remove", {"acls": [acl()], "request_id": "x" * 65}, "request_id"),
        ("test", {"principal": "User:a"}, "resource_type"),
    ],
)
async def test_a_wrong_request_is_refused(call: str, fields: dict[str, Any], field: str) -> None:
    async with rules() as each:
        with pytest.raises(errors.InvalidField) as refused:
            await getattr(each, call)(**fields)
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"operation": "ACL_OPERATION_ALL"}, "operation"),
        ({"operation": "ACL_OPERATION_ALTER_CONFIGS"}, "operation"),
        ({"operation": 0}, "operation"),
        ({"principal": "User:*"}, "principal"),
        ({"principal": "b"}, "principal"),
        ({"host": "*"}, "principal"),
        ({"host": "b"}, "host"),
        ({"name": ""}, "name"),
    ],
)
async def test_a_test_names_one_caller_one_operation_and_one_resource(
    wrong: dict[str, Any], field: str
) -> None:
    question = {
        "principal": "User:a",
        "operation": "ACL_OPERATION_READ",
        "resource_type": "RESOURCE_TYPE_GROUP",
        "name": "billing",
        **wrong,
    }
    async with rules() as each:
        with pytest.raises(errors.InvalidField) as refused:
            await each.test(**question)
        assert refused.value.field == field

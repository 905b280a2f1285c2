"""The file of rules: its format, and what is told of a file that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from offsetd_coordinator.security import acl_file
from offsetd_coordinator.security.acl import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from offsetd_coordinator.security.acl_file import InvalidAclFile, parse_acl_file

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "security.md"
TABLE = """
[[acl]]
principal = "User:alice"
allow = ["Read"]
group = "billing"
"""


def problem_of(content: bytes | str, name: str = "") -> str:
    with pytest.raises(InvalidAclFile) as caught:
        parse_acl_file(content, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_line(line: str) -> str:
    """The table with another line: in the place of the one with the same key, or at the end."""
    key = line.partition("=")[0].strip()
    lines = [each for each in TABLE.splitlines() if not re.match(rf"{key}\b", each)]
    return "\n".join([*lines, line])


def test_a_table_is_a_rule() -> None:
    assert parse_acl_file(TABLE) == (
        Acl(
            principal="User:alice",
            host="*",
            permission=Permission.ALLOW,
            operation=Operation.READ,
            resource_type=ResourceType.GROUP,
            name="billing",
            pattern=PatternType.LITERAL,
        ),
    )


def test_a_file_without_tables_has_no_rules() -> None:
    assert parse_acl_file(b"# nothing yet\n") == ()


def test_lists_are_multiplied() -> None:
    acls = parse_acl_file(
        """
        [[acl]]
        principals = ["User:alice", "User:bob"]
        hosts = ["10.0.0.1", "unix"]
        deny = ["Read", "Describe", "All"]
        topic_prefix = "orders."
        """
    )
    assert {(acl.principal, acl.host, acl.operation.value) for acl in acls} == {
        (principal, host, operation)
        for principal in ("User:alice", "User:bob")
        for host in ("10.0.0.1", "unix")
        for operation in ("Read", "Describe", "All")
    }
    assert len(acls) == 12
    for acl in acls:
        assert acl.permission is Permission.DENY
        assert acl.resource_type is ResourceType.TOPIC
        assert (acl.name, acl.pattern) == ("orders.", PatternType.PREFIXED)


@pytest.mark.parametrize(
    ("line", "resource"),
    [
        ('group = "*"', (ResourceType.GROUP, "*", PatternType.LITERAL)),
        ('group = "a\\nb,\\"c\\", д"', (ResourceType.GROUP, 'a\nb,"c", д', PatternType.LITERAL)),
        ('group_prefix = "bill"', (ResourceType.GROUP, "bill", PatternType.PREFIXED)),
        ('topic = "orders"', (ResourceType.TOPIC, "orders", PatternType.LITERAL)),
        ('topic_prefix = "or"', (ResourceType.TOPIC, "or", PatternType.PREFIXED)),
        ("cluster = true", (ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)),
    ],
)
def test_each_kind_of_resource(line: str, resource: tuple[ResourceType, str, PatternType]) -> None:
    table = f'[[acl]]\nprincipal = "User:*"\nallow = ["Describe"]\n{line}'
    (acl,) = parse_acl_file(table)
    assert (acl.resource_type, acl.name, acl.pattern) == resource


@pytest.mark.parametrize(
    ("host", "rule_host"),
    [
        ("*", "*"),
        ("10.0.0.1", "10.0.0.1"),
        ("unix", "unix"),
        ("2001:DB8:0::7", "2001:db8::7"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_a_host_is_written_as_callers_have_it(host: str, rule_host: str) -> None:
    (acl,) = parse_acl_file(with_line(f'host = "{host}"'))
    assert acl.host == rule_host


def test_the_rules_of_the_guide_are_rules() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    examples = re.findall(r"(?:<<'END'|```toml)\n(\[\[acl\]\]\n.*?)\n(?:END|```)", text, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        assert parse_acl_file(example)


def test_no_rule_is_there_twice() -> None:
    assert len(parse_acl_file(TABLE + with_line('allow = ["Read", "Delete", "Read"]'))) == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('groop = "x"', "unknown key 'groop'; did you mean group?"),
        ('Host = "*"', "unknown key 'Host'; did you mean host?"),
        ("colour = 1", "unknown key 'colour'"),
        ("principal = 3", "`principal` is a number, not a string"),
        ('principal = "alice"', "principal 'alice' is not User:NAME"),
        ('principal = "User:"', "principal 'User:' is not User:NAME"),
        ('principal = "Group:x"', "principal 'Group:x' is not User:NAME"),
        ('principals = ["User:b"]', "it has both `principal` and `principals`"),
        ("hosts = []", "`hosts` is empty"),
        ("hosts = [1]", "`hosts` is no list of strings"),
        ('hosts = "10.0.0.1"', "`hosts` is no list of strings"),
        ('host = "10.0.0.0/8"', "host '10.0.0.0/8' is not an IP address, `unix`, or *"),
        ('host = ""', "host '' is not an IP address"),
        ('host = "localhost"', "host 'localhost' is not an IP address"),
        ('allow = "Read"', "`allow` is no list of strings"),
        ("allow = []", "`allow` is empty"),
        ('allow = ["Reed"]', "`allow` has 'Reed', which is no operation; did you mean Read?"),
        ('allow = ["read"]', "`allow` has 'read', which is no operation; did you mean Read?"),
        ('allow = ["xyzzy"]', "`allow` has 'xyzzy', which is no operation"),
        (
            'allow = ["Read", "AlterConfigs"]',
            "AlterConfigs, which is no operation of Group: that has All, Alter, Delete, Describe",
        ),
        ('deny = ["Read"]', "it has both `allow` and `deny`"),
        ('topic = "orders"', "it has group and topic: give one of group, group_prefix, topic,"),
        ('group = ""', "`group` is '', not a name"),
        ("group = ['a']", "`group` is a list, not a name"),
        ("group = 2026-11-27", "`group` is a time, not a name"),
        ("group = 1.5", "`group` is a number, not a name"),
        (
            'group = "billing-*"',
            "`group` is 'billing-*': a * in a name is no pattern; use group_prefix = \"billing-\"",
        ),
        ('group = "*-eu"', "`group` is '*-eu': a * in a name is no pattern; use the name *"),
    ],
)
def test_a_table_that_is_wrong_is_named_with_its_field(line: str, told: str) -> None:
    problem = problem_of(TABLE + with_line(line), "acls.toml")
    assert problem.startswith("acls.toml: table 2: ")
    assert told in problem


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[[acl]]\nallow = ['Read']\ngroup = 'a'", "table 1: `principal` is missing"),
        ("[[acl]]\nprincipal = 'User:a'\ngroup = 'a'", "table 1: no `allow` and no `deny`"),
        ("[[acl]]\nprincipal = 'User:a'\nallow = ['Read']", "table 1: no resource: give one of"),
        (
            "[[acl]]\nprincipal = 'User:a'\nallow = ['Read']\ncluster = false",
            "table 1: `cluster` is false: it must be true, or be left out",
        ),
        (
            "[[acl]]\nprincipal = 'User:a'\nallow = ['Read']\ncluster = true",
            "table 1: `allow` has Read, which is no operation of Cluster",
        ),
        (
            "[[acl]]\nprincipal = 'User:a'\nallow = ['Read']\ngroup_prefix = '*'",
            "table 1: `group_prefix` is '*': a * in a name is no pattern",
        ),
        ("version = 1", "unknown key 'version' outside of the tables [[acl]]"),
        ("[acl]", "`acl` is no list of tables"),
        ("acl = [1]", "table 1: expected a table, `[[acl]]`"),
        ("[[acl]]\nprincipal = ", "it is not TOML: Invalid value (at end of document)"),
        ("\x00", "it is not TOML"),
        ("a = " + "[" * 100_000, "it is not TOML: its values are nested too deeply"),
        (b"# \xff", "it is not UTF-8 (byte 2)"),
    ],
)
def test_a_content_that_is_wrong(content: bytes | str, told: str) -> None:
    assert problem_of(content).startswith(told)


def test_what_is_told_of_a_long_text_is_short() -> None:
    for line in (f"{'k' * 50_000} = 1", f'allow = ["{"x" * 50_000}"]', f'host = "{"y" * 50_000}"'):
        assert len(problem_of(with_line(line))) < 300


def test_a_value_that_has_no_short_text_is_told_all_the_same() -> None:
    assert "`host` is a table" in problem_of(with_line("host" + ".a" * 1_500 + " = 1"))
    assert "`host` is a number" in problem_of(with_line("host = 0x" + "f" * 50_000))


def test_tables_that_multiply_to_too_many_rules_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acl_file, "ACLS_MAX", 4)
    four = with_line('allow = ["Read", "Delete", "Alter", "Describe"]')
    assert len(parse_acl_file(four)) == 4
    assert problem_of(four + with_line('group = "b"')) == "table 2: the file has more than 4 rules"
    assert problem_of(four.replace('"Read"', '"All", "Read"')).endswith("more than 4 rules")

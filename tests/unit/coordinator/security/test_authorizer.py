"""Rules that change, super users, and decisions that are remembered only while they are right."""

from __future__ import annotations

import sys

import pytest
from offsetd_coordinator.security import authorizer as authorizer_module
from offsetd_coordinator.security.acl import Acl, Operation, Permission, ResourceType
from offsetd_coordinator.security.authorizer import Authorizer, Explanation

ALICE, BOB, HOST = "User:alice", "User:bob", "10.0.0.1"
READ, GROUP = Operation.READ, ResourceType.GROUP


def rule(name: str, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(
        principal=ALICE, permission=permission, operation=READ, resource_type=GROUP, name=name
    )


def allows(authorizer: Authorizer, name: str, principal: str = ALICE) -> bool:
    return authorizer.allows(principal, HOST, READ, GROUP, name)


def test_without_rules_nobody_may_do_anything() -> None:
    authorizer = Authorizer()
    assert authorizer.acls == ()
    assert not allows(authorizer, "billing")
    assert authorizer.explain(ALICE, HOST, READ, GROUP, "billing") == Explanation(
        False, None, False
    )


def test_a_decision_is_explained_by_its_rule() -> None:
    allowing, denying = rule("billing"), rule("payroll", Permission.DENY)
    authorizer = Authorizer(acls=[allowing, denying])
    assert authorizer.explain(ALICE, HOST, READ, GROUP, "billing") == (True, allowing, False)
    assert authorizer.explain(ALICE, HOST, READ, GROUP, "payroll") == (False, denying, False)


def test_a_super_user_may_do_everything_even_what_a_rule_denies() -> None:
    authorizer = Authorizer(
        super_users=frozenset({ALICE, "User:*"}), acls=[rule("*", Permission.DENY)]
    )
    assert authorizer.explain(ALICE, HOST, READ, GROUP, "billing") == (True, None, True)
    assert allows(authorizer, "billing")
    assert authorizer.allows_all(ALICE, HOST, Operation.ALTER, GROUP)
    assert not allows(authorizer, "billing", BOB)  # No name of a super user is a pattern.
    assert not allows(authorizer, "billing", ALICE.lower())


def test_a_change_of_rules_counts_for_the_next_question() -> None:
    authorizer = Authorizer(acls=[rule("*")])

    def answers() -> list[bool]:
        return [
            allows(authorizer, "billing"),
            authorizer.allows_all(ALICE, HOST, READ, GROUP),
        ]

    assert answers() == answers() == [True, True]
    authorizer.set_acls([rule("*"), rule("billing", Permission.DENY)])
    assert answers() == answers() == [False, False]
    authorizer.set_acls([])
    assert answers() == answers() == [False, False]
    authorizer.set_acls(iter([rule("billing")]))
    assert answers() == answers() == [True, False]


def test_the_version_grows_with_each_change() -> None:
    authorizer = Authorizer(acls=[rule("a")])
    versions = [authorizer.version]
    for acls in ([], [], [rule("b"), rule("a")]):
        authorizer.set_acls(acls)
        versions.append(authorizer.version)
    assert versions == sorted(set(versions))
    assert authorizer.acls == (rule("b"), rule("a"))


def test_questions_of_different_kinds_are_not_mixed_up() -> None:
    authorizer = Authorizer(acls=[rule("billing")])
    for _ in range(2):
        assert allows(authorizer, "billing")
        assert not allows(authorizer, "billing", BOB)
        assert not authorizer.allows(ALICE, HOST, Operation.DELETE, GROUP, "billing")
        assert not authorizer.allows(ALICE, HOST, READ, ResourceType.TOPIC, "billing")
        assert not authorizer.allows_all(ALICE, HOST, READ, GROUP)


@pytest.mark.parametrize("name_characters", [1, 32_768])
def test_callers_cannot_fill_the_memory_with_names(
    name_characters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bytes_max = 200_000
    monkeypatch.setattr(authorizer_module, "CACHE_BYTES_MAX", bytes_max)
    authorizer = Authorizer(acls=[rule("billing")])
    for number in range(1000):
        assert not allows(authorizer, chr(0x10000 + number) * name_characters)
        assert allows(authorizer, "billing")
        names = [name for *_, name in authorizer._known]
        assert sum(map(sys.getsizeof, names)) < bytes_max
        assert len(names) < bytes_max // authorizer_module._ENTRY_BYTES


def test_a_name_that_is_too_long_to_be_remembered_is_decided_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authorizer_module, "CACHE_BYTES_MAX", 10_000)
    authorizer = Authorizer(acls=[rule("x" * 32_768)])
    for _ in range(2):
        assert allows(authorizer, "x" * 32_768)
        assert not allows(authorizer, "x" * 32_767)
    assert not authorizer._known

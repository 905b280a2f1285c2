"""Rules in the topic of settings: what of it a node takes as rules, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from offsetd_coordinator.cluster.cluster import silence_problems
from offsetd_coordinator.cluster.shared_internal_topics import (
    NODE_HEADER,
    internal_record,
    read_internal_record,
)
from offsetd_coordinator.cluster.shared_rules import replay_rules
from offsetd_coordinator.cluster.topic_records import topic_records
from offsetd_coordinator.configuration.acl_state import AclState, ChangeAcls
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from unit.coordinator.cluster.test_topic_records import Message

if TYPE_CHECKING:
    from collections.abc import Collection

NOW_MS = 1_700_000_000_000
READ = Acl(
    principal="User:a",
    host="*",
    permission=Permission.ALLOW,
    operation=Operation.READ,
    resource_type=ResourceType.GROUP,
    name="g",
    pattern=PatternType.LITERAL,
)
DENY = attrs.evolve(READ, permission=Permission.DENY)


def state() -> AclState:
    return AclState(request_id_window_ms=60_000)


def written(
    acls: Collection[Acl], *, at: int, node: str = "n1", before: AclState | None = None
) -> list[Message]:
    """The messages of a change. It removes rules if there is a state before it."""
    request = ChangeAcls(acls=acls, is_removal=before is not None, request_id=b"id")
    decision = (before or state()).decide(request, NOW_MS, offset_next=at, leader_epoch=0)
    assert decision.batch is not None
    return [
        Message(
            each._replace(
                key=b"\0" + (each.key or b""),
                headers=[(NODE_HEADER, node.encode()), *each.headers],
            )
        )
        for each in topic_records(decision.batch)
    ]


def test_the_order_of_the_topic_decides_whatever_node_wrote() -> None:
    rules = state()
    added = written([READ, DENY], at=9, node="n2")
    assert replay_rules(rules, added)
    assert rules.acls == {READ, DENY}
    # Two nodes may have written at the same place.
    removed = written([READ], at=9, node="n1", before=rules)
    assert replay_rules(rules, removed)
    assert rules.acls == {DENY}
    assert replay_rules(rules, [*removed, *added])
    assert rules.acls == {READ, DENY}


def test_a_request_that_another_node_has_answered_is_known() -> None:
    rules = state()
    replay_rules(rules, written([READ, DENY], at=3, node="n2"))
    again = rules.decide(
        ChangeAcls(acls=[READ, DENY], request_id=b"id"), NOW_MS, offset_next=9, leader_epoch=0
    )
    assert again.batch is None
    assert again.reply is not None
    assert set(again.reply.changed) == {READ, DENY}


def test_rules_are_of_no_node_and_rules_of_a_node_are_not_of_all() -> None:
    messages = written([READ], at=3)
    assert [read_internal_record(each) for each in messages] == [None]
    decision = state().decide(ChangeAcls(acls=[READ]), NOW_MS, offset_next=3, leader_epoch=0)
    assert decision.batch is not None
    rules = state()
    own = [Message(internal_record("n1", each)) for each in topic_records(decision.batch)]
    assert not replay_rules(rules, own)
    assert not rules.acls


def test_rules_that_cannot_be_read_are_counted() -> None:
    rules = state()
    [message] = written([READ], at=3)
    newer = Message(message.sent._replace(key=b"\0\0\7newer"))
    assert replay_rules(rules, [newer])
    assert rules.unreadable_records == 1


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({}, False),
        ({"security_acl_enable": True}, True),
        ({"security_acl_file": "acls.toml"}, False),
        ({"security_acl_enable": True, "security_acl_file": "acls.toml"}, False),
    ],
)
def test_rules_of_the_topic_count_if_they_are_on_and_in_no_file(
    given: dict[str, Any], counts: bool
) -> None:
    assert Settings(**given).has_rules_by_command is counts


def test_silent_brokers_are_told_of_and_old_rules_where_they_may_be() -> None:
    silence = "node n1: the Kafka cluster has not answered for 12 s; commits and reads wait"
    rules = "node n1: the access rules may have been outdated for 11 s"
    assert silence_problems("n1", silent_s=12.2, unread_s=0.0) == (silence,)
    assert silence_problems("n1", silent_s=12.2, unread_s=11.3) == (silence, rules)
    assert silence_problems("n1", silent_s=9.0, unread_s=9.0) == ()

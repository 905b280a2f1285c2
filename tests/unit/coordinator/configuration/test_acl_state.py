"""Stored access rules: what is decided, what is replayed, and what strange records do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.configuration.acl_filter import acl_order
from offsetd_coordinator.configuration.acl_record import encode_acl_key, encode_acl_value
from offsetd_coordinator.configuration.acl_state import (
    ACLS_MAX,
    CHANGE_BYTES_MAX,
    CHANGED_ACLS_MAX,
    AclsReply,
    ChangeAcls,
)
from offsetd_coordinator.configuration.config_state import ConfigState, UpdateConfig
from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.security.acl import Acl, Operation, Permission, ResourceType
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.configuration.topic_configs import TopicConfigs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_coordinator.configuration.acl_state import AclsDecision

NOW_MS = 1_700_000_000_000
WINDOW_MS = 60_000


def new_state() -> ConfigState:
    return ConfigState(TopicConfigs(), request_id_window_ms=WINDOW_MS)


def acl(name: str = "billing", operation: Operation = Operation.READ) -> Acl:
    return Acl(
        principal="User:a",
        permission=Permission.ALLOW,
        operation=operation,
        resource_type=ResourceType.GROUP,
        name=name,
    )


def ask(state: ConfigState, request: ChangeAcls, now_ms: int = NOW_MS) -> AclsDecision:
    """Decides, and replays what was decided."""
    decision = state.decide_acls(request, now_ms)
    if decision.batch is not None:
        state.replay(decision.batch)
    return decision


def add(state: ConfigState, acls: Iterable[Acl], **fields: Any) -> AclsReply:
    decision = ask(state, ChangeAcls(acls=tuple(acls), **fields))
    assert decision.reply is not None
    return decision.reply


def remove(state: ConfigState, acls: Iterable[Acl], **fields: Any) -> AclsReply:
    return add(state, acls, is_removal=True, **fields)


def records_of(decision: AclsDecision) -> list[tuple[bytes | None, bytes | None]]:
    assert decision.batch is not None
    [batch] = decode_batches(decision.batch)
    return [(record.key, record.value) for record in batch.records]


def test_a_change_is_one_batch_and_counts_once_it_is_replayed() -> None:
    state = new_state()
    first, second = sorted([acl("b"), acl("a")], key=acl_order)
    decision = state.decide_acls(ChangeAcls(acls=[second, first, second]), NOW_MS)
    assert decision.reply == AclsReply((first, second), 1)
    assert records_of(decision) == [
        (encode_acl_key(first), encode_acl_value()),
        (encode_acl_key(second), encode_acl_value()),
    ]
    assert state.rules.acls == frozenset()
    assert decision.batch is not None
    state.replay(decision.batch)
    assert state.rules.acls == {first, second}
    assert state.offset_next == 2


def test_a_removal_is_a_tombstone_for_each_rule_that_is_there() -> None:
    state = new_state()
    add(state, [acl("a"), acl("b")])
    decision = ask(state, ChangeAcls(acls=[acl("a"), acl("c")], is_removal=True))
    assert decision.reply == AclsReply((acl("a"),), 2)
    assert records_of(decision) == [(encode_acl_key(acl("a")), None)]
    assert state.rules.acls == {acl("b")}


@pytest.mark.parametrize(
    "request_",
    [
        ChangeAcls(acls=[acl()]),
        ChangeAcls(acls=[acl("other")], is_removal=True),
        ChangeAcls(acls=[acl(operation=Operation.ALL)], is_removal=True),
        ChangeAcls(acls=[], is_removal=True),
    ],
    ids=["is there", "is not there", "another operation", "none"],
)
def test_where_nothing_changes_nothing_is_written(request_: ChangeAcls) -> None:
    state = new_state()
    add(state, [acl()])
    decision = ask(state, request_)
    assert decision.batch is None
    assert decision.reply == AclsReply((), None)
    assert state.rules.acls == {acl()}


def test_a_check_answers_what_would_be_done_and_writes_nothing() -> None:
    state = new_state()
    add(state, [acl("a")], request_id=b"r")
    for is_removal, changed in ((False, acl("b")), (True, acl("a"))):
        request = ChangeAcls(
            acls=[acl("a"), acl("b")], is_removal=is_removal, validate_only=True, request_id=b"r"
        )
        decision = ask(state, request)
        assert decision.batch is None
        assert decision.reply == AclsReply((changed,), None)
    assert state.rules.acls == {acl("a")}


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_retry_gets_the_answer_of_the_first_try(is_reloaded: bool) -> None:
    state, batches = new_state(), b""
    first = ChangeAcls(acls=[acl("b"), acl("a")], request_id=b"r")
    removal = ChangeAcls(acls=[acl("a")], is_removal=True, request_id=b"r")
    answers = []
    for request in (first, removal):
        decision = ask(state, request)
        assert decision.batch is not None
        batches += decision.batch
        answers.append(decision.reply)
    assert answers == [AclsReply((acl("a"), acl("b")), 1), AclsReply((acl("a"),), 2)]
    if is_reloaded:
        state = new_state()
        state.replay(batches)
    for request, answer in zip((first, removal), answers, strict=True):
        decision = ask(state, request, NOW_MS + WINDOW_MS)
        assert (decision.reply, decision.batch) == (answer, None)
    assert state.rules.acls == {acl("b")}
    # After the window it is a new request.
    assert ask(state, first, NOW_MS + WINDOW_MS + 1).reply == AclsReply((acl("a"),), 3)


def test_a_request_id_of_a_setting_is_not_one_of_rules() -> None:
    state = new_state()
    update = UpdateConfig(topic=None, changes={"log.cleaner.threads": "2"}, request_id=b"r")
    decision = state.decide(update, NOW_MS)
    assert decision.batch is not None
    state.replay(decision.batch)
    assert add(state, [acl()], request_id=b"r").last_offset == 1
    assert state.decide(update, NOW_MS).reply == (0,)
    assert state.applied.configs.cleaner.threads == 2


def long(number: int) -> Acl:
    """A rule whose key has about 32 KiB."""
    return acl(f"{number}".rjust(32_000, "x"))


@pytest.mark.parametrize(
    ("acls", "words"),
    [
        ([acl(str(each)) for each in range(CHANGED_ACLS_MAX + 1)], "more than 1000"),
        ([long(each) for each in range(CHANGE_BYTES_MAX // 32_000 + 1)], "more than 131072"),
    ],
    ids=["too many", "too long"],
)
def test_a_change_has_bounds(acls: list[Acl], words: str) -> None:
    state = new_state()
    for begin in range(0, len(acls), 4):
        add(state, acls[begin : begin + 4])
    assert state.rules.acls == set(acls)
    for request, shard in (
        (ChangeAcls(acls=acls), new_state()),
        (ChangeAcls(acls=acls, is_removal=True), state),
    ):
        before = shard.rules.acls
        decision = ask(shard, request)
        assert isinstance(decision.refusal, InvalidRequest)
        assert decision.refusal.field == ("filters" if request.is_removal else "acls")
        assert words in str(decision.refusal)
        assert (decision.reply, decision.batch, shard.rules.acls) == (None, None, before)
        fewer = ChangeAcls(acls=acls[1:], is_removal=request.is_removal)
        assert ask(shard, fewer).refusal is None


def test_a_server_has_at_most_so_many_rules() -> None:
    state = new_state()
    names = [str(each) for each in range(ACLS_MAX)]
    for begin in range(0, ACLS_MAX, CHANGED_ACLS_MAX):
        add(state, map(acl, names[begin : begin + CHANGED_ACLS_MAX]))
    decision = ask(state, ChangeAcls(acls=[acl("one more")]))
    assert isinstance(decision.refusal, InvalidRequest)
    assert "more than 10000" in str(decision.refusal)
    add(state, [acl("0")])
    remove(state, [acl("0")])
    add(state, [acl("one more")])
    assert len(state.rules.acls) == ACLS_MAX


def test_records_that_cannot_be_read_leave_the_others_and_the_settings_alone() -> None:
    state = new_state()
    keys = [
        (encode_acl_key(acl("a")), encode_acl_value()),
        (encode_acl_key(acl("b")), b"\0\1"),
        (b"\0\0\2\3\7" + encode_acl_key(acl("c"))[5:], encode_acl_value()),
        (b"\0\0\2", None),
    ]
    state.replay(
        encode_batch(
            [
                Record(key=key, value=value, offset=place, timestamp_ms=NOW_MS)
                for place, (key, value) in enumerate(keys)
            ],
            base_offset=0,
        )
    )
    assert state.rules.acls == {acl("a")}
    assert state.rules.unreadable_records == 3
    # Rules do not say which records are kept: cleaning and expiry go on.
    assert (state.doubt, state.unknown_records, state.undecodable_records) == (None, 0, 0)
    assert add(state, [acl("b")]) == AclsReply((acl("b"),), 4)


def test_a_snapshot_stays_as_it_was() -> None:
    state = new_state()
    add(state, [acl("a")])
    before = state.rules.acls
    add(state, [acl("b")])
    remove(state, [acl("a")])
    assert before == {acl("a")}
    assert state.rules.acls == {acl("b")}

"""Who may call what: every kind of caller, for every method that the descriptors have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from certificates import Authority
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.security.required_rights import METHOD_RIGHTS
from oidc_issuer import compact, signing_key, token
from refusals import details
from security.secured_server import (
    ALL,
    GROUP,
    MAY,
    METHODS,
    TOPIC,
    SecuredFiles,
    called,
    good_claims,
    refusals_in,
    request_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server_process import ServerProcess

UNKNOWN = "bulling"  # As long as GROUP: encoded names have a length before them.
IMPLIED = {"Describe": {"Read", "Delete", "Alter"}, "DescribeConfigs": {"AlterConfigs"}}
NOW = datetime.now(UTC)


@pytest.fixture(scope="module", autouse=True)
def stored(mtls_server: ServerProcess, files: SecuredFiles) -> None:
    """There is a group, with an offset."""
    with files.channel(mtls_server.address, "root") as channel:
        assert called(channel, "CommitOffsets", request_of("CommitOffsets")).code.name == "OK"


def may(caller: str, operation: Operation, resource_type: ResourceType) -> bool:
    held = MAY[caller].get(resource_type.value, frozenset())
    wanted = {operation.value, ALL} | IMPLIED.get(operation.value, set())
    return not wanted.isdisjoint(held)


def full_request_of(method: str) -> Any:
    """A request that names a topic also where that only narrows the answer."""
    request = request_of(method)
    if method == "ListGroups":
        request.topics.append(TOPIC)
    return request


def is_refused(outcome: Any) -> bool:
    return outcome.code is grpc.StatusCode.PERMISSION_DENIED or 7 in refusals_in(outcome)


def test_every_method_has_a_row_and_every_row_a_method() -> None:
    assert set(METHOD_RIGHTS) == set(METHODS)


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("caller", sorted(MAY))
def test_a_caller_may_do_what_the_rules_allow(
    mtls_server: ServerProcess, files: SecuredFiles, caller: str, method: str
) -> None:
    needs = METHOD_RIGHTS[method].needs
    allowed = all(may(caller, right.operation, right.resource_type) for right in needs)
    with files.channel(mtls_server.address, caller) as channel:
        outcome = called(channel, method, full_request_of(method))
    assert is_refused(outcome) == (not allowed), outcome.details
    assert outcome.code not in (
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.UNIMPLEMENTED,
    ), outcome.details


def bad_connections(files: SecuredFiles, address: str) -> dict[str, grpc.Channel]:
    authority, stranger = files.authority, Authority("somebody else")
    day = timedelta(days=1)
    return {
        "plain text": grpc.insecure_channel(address),
        "no certificate": files.channel(address),
        "another authority": files.channel(address, issued=stranger.issue("root")),
        "expired": files.channel(
            address,
            issued=authority.issue("root", not_before=NOW - 9 * day, not_after=NOW - day),
        ),
        "not yet valid": files.channel(
            address,
            issued=authority.issue("root", not_before=NOW + day, not_after=NOW + 9 * day),
        ),
        "for servers only": files.channel(
            address, issued=authority.issue("root", usages=("server",))
        ),
    }


@pytest.mark.parametrize("method", sorted(METHODS))
def test_without_a_good_certificate_nothing_is_answered(
    bad_channels: dict[str, grpc.Channel], method: str
) -> None:
    codes = {
        name: called(channel, method, request_of(method)).code
        for name, channel in bad_channels.items()
    }
    assert codes == dict.fromkeys(bad_channels, grpc.StatusCode.UNAVAILABLE)


@pytest.fixture(scope="module")
def bad_channels(
    mtls_server: ServerProcess, files: SecuredFiles
) -> Iterator[dict[str, grpc.Channel]]:
    channels = bad_connections(files, mtls_server.address)
    yield channels
    for channel in channels.values():
        channel.close()


def bad_tokens() -> dict[str, str]:
    """For the super user: each would be let in, were it not for what is wrong."""
    key, other = signing_key("one", "ES256"), signing_key("two", "ES256")
    root = good_claims(sub="root")
    header = {"alg": "none", "typ": "JWT"}
    return {
        "no token of ours": "offsetd_0123456789abcdef_" + "A" * 43,
        "no token at all": "hello",
        "another audience": token(key, good_claims(sub="root", aud="somebody")),
        "another issuer": token(key, good_claims(sub="root", iss="https://evil.example")),
        "alg none": compact(header, root, lambda _: b""),
        "alg none, signed": compact(header, root, key.sign),
        "expired": token(key, good_claims(sub="root", exp=int(NOW.timestamp()) - 3600)),
        "unknown key": token(other, root),
        "signed by another key": compact(
            {"alg": "ES256", "typ": "JWT", "kid": "one"}, root, other.sign
        ),
    }


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_bad_token_is_refused(
    token_server: ServerProcess, files: SecuredFiles, method: str
) -> None:
    with files.channel(token_server.address) as channel:
        outcomes = {
            name: called(channel, method, request_of(method), [("authorization", f"Bearer {bad}")])
            for name, bad in bad_tokens().items()
        }
    codes = {name: outcome.code for name, outcome in outcomes.items()}
    assert codes == dict.fromkeys(outcomes, grpc.StatusCode.UNAUTHENTICATED)
    assert not any(bad in outcomes[name].details for name, bad in bad_tokens().items())


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_good_token_is_its_principal_and_a_header_is_not(
    token_server: ServerProcess, files: SecuredFiles, method: str
) -> None:
    key = signing_key("one", "ES256")
    refused = bool(METHOD_RIGHTS[method].needs)
    for sent, expected in (
        ([("authorization", f"Bearer {token(key, good_claims(sub='root'))}")], False),
        ([("authorization", f"Bearer {token(key, good_claims(sub='nobody'))}")], refused),
        ([("principal", "User:root"), ("x-principal", "User:root"), ("user", "root")], refused),
    ):
        with files.channel(token_server.address) as channel:
            outcome = called(channel, method, full_request_of(method), sent)
        assert is_refused(outcome) == expected, (sent, outcome.details)


NAMES_A_GROUP = sorted(
    method
    for method, rights in METHOD_RIGHTS.items()
    if any(right.resource_type is ResourceType.GROUP for right in rights.needs)
)


@pytest.mark.parametrize("method", NAMES_A_GROUP)
def test_nothing_tells_a_stranger_whether_a_group_exists(
    mtls_server: ServerProcess, files: SecuredFiles, method: str
) -> None:
    with files.channel(mtls_server.address, "nobody") as channel:
        there = called(channel, method, request_of(method, GROUP))
        absent = called(channel, method, request_of(method, UNKNOWN))
    assert there.code is absent.code
    assert there.details == absent.details.replace(UNKNOWN, GROUP)
    assert [str(answer) for answer in there.answers] == [
        str(answer).replace(UNKNOWN, GROUP) for answer in absent.answers
    ]


@pytest.mark.parametrize("method", ["ListGroups", "ExportOffsets", "ListAuditEvents"])
def test_lists_leave_out_what_the_caller_may_not_describe(
    mtls_server: ServerProcess, files: SecuredFiles, method: str
) -> None:
    def shown(caller: str) -> str:
        request = request_of(method)
        if method == "ExportOffsets":
            del request.group_ids[:], request.topics[:]
        with files.channel(mtls_server.address, caller) as channel:
            outcome = called(channel, method, request)
        assert outcome.code is grpc.StatusCode.OK, outcome.details
        return "".join(map(str, outcome.answers))

    with files.channel(mtls_server.address, "root") as channel:
        reset = request_of("ResetOffsets")
        reset.validate_only = False
        reset.offset, reset.force = 9, True
        reset.topics.append(TOPIC)
        assert called(channel, "ResetOffsets", reset).code is grpc.StatusCode.OK
    assert GROUP in shown("owner")
    assert GROUP not in shown("denied")


def test_a_stranger_gets_no_counts_of_groups_and_offsets(
    mtls_server: ServerProcess, files: SecuredFiles
) -> None:
    def told_to(caller: str) -> Any:
        with files.channel(mtls_server.address, caller) as channel:
            [answer] = called(channel, "GetServerInfo", request_of("GetServerInfo")).answers
        return answer

    with files.channel(mtls_server.address, "root") as channel:
        commit = called(channel, "CommitOffsets", request_of("CommitOffsets"))
        assert commit.code is grpc.StatusCode.OK
    for caller in ("root", "owner"):
        told = told_to(caller)
        counts = told.group_count, told.offset_count, not told.counts_hidden
        assert all(counts), caller
    for caller in ("nobody", "reader"):
        told = told_to(caller)
        assert (told.group_count, told.offset_count, told.counts_hidden) == (0, 0, True), caller
        assert told.version


@pytest.mark.parametrize("method", ["FetchOffsets", "GetGroup", "ListOffsetHistory"])
def test_topics_are_left_out_as_if_they_were_absent(
    mtls_server: ServerProcess, files: SecuredFiles, method: str
) -> None:
    request = request_of(method)
    if method == "GetGroup":
        request.include_offsets = request.include_lags = True
    outcomes = {}
    for caller in ("owner", "no-topic"):
        with files.channel(mtls_server.address, caller) as channel:
            outcomes[caller] = called(channel, method, request)
            assert outcomes[caller].code is grpc.StatusCode.OK, outcomes[caller].details
    assert TOPIC in str(outcomes["owner"].answers)
    assert TOPIC not in str(outcomes["no-topic"].answers)


CHANGES = ["ResetOffsets", "CloneGroup", "ImportOffsets"]


def change_of(method: str, *topics: str) -> Any:
    """A dry run that changes the group's offsets of these topics; of all, if none is named."""
    request = request_of(method)
    if method == "ImportOffsets":
        request.content = "".join(f"{topic},0,7\n" for topic in topics).encode()
    else:
        request.topics.extend(topics)
    if method == "ResetOffsets":
        request.shift_by = 0
    return request


@pytest.mark.parametrize("method", CHANGES)
def test_a_change_needs_a_right_to_each_topic(
    mtls_server: ServerProcess, files: SecuredFiles, method: str
) -> None:
    """So neither an answer nor an error tells of a topic that the caller may not see."""
    with files.channel(mtls_server.address, "root") as channel:
        commit = request_of("CommitOffsets", topic="secret")
        assert called(channel, "CommitOffsets", commit).code is grpc.StatusCode.OK
    with files.channel(mtls_server.address, "of-one-topic") as channel:
        own = called(channel, method, change_of(method, TOPIC))
        hidden = called(channel, method, change_of(method, TOPIC, "secret"))
        absent = called(channel, method, change_of(method, TOPIC, "sacred"))
    assert own.code is grpc.StatusCode.OK, own.details
    assert hidden.code is absent.code is grpc.StatusCode.PERMISSION_DENIED
    assert hidden.details == absent.details.replace("sacred", "secret")


@pytest.mark.parametrize("method", ["ResetOffsets", "CloneGroup", "RestoreGroup"])
def test_a_change_of_all_topics_needs_the_right_to_all(
    mtls_server: ServerProcess, files: SecuredFiles, method: str
) -> None:
    request = request_of(method)
    if method != "RestoreGroup":
        request = change_of(method)
    outcomes = {}
    for caller in ("of-one-topic", "owner"):
        with files.channel(mtls_server.address, caller) as channel:
            outcomes[caller] = called(channel, method, request)
    assert outcomes["of-one-topic"].code is grpc.StatusCode.PERMISSION_DENIED
    assert not is_refused(outcomes["owner"])


def reason_of(channel: grpc.Channel, method: str, bad_token: str | None = None) -> str:
    """The public reason of a refusal."""
    metadata = None if bad_token is None else [("authorization", f"Bearer {bad_token}")]
    outcome = called(channel, method, request_of(method), metadata)
    assert outcome.error is not None
    return details(outcome.error)[1]


def test_each_kind_of_refusal_has_a_reason_of_its_own(
    mtls_server: ServerProcess, token_server: ServerProcess, files: SecuredFiles
) -> None:
    with files.channel(mtls_server.address, "no-topic") as channel:
        assert reason_of(channel, "CommitOffsets") == "TOPIC_AUTHORIZATION_FAILED"
    with files.channel(mtls_server.address, "nobody") as channel:
        assert reason_of(channel, "CommitOffsets") == "GROUP_AUTHORIZATION_FAILED"
        assert reason_of(channel, "DescribeLog") == "CLUSTER_AUTHORIZATION_FAILED"
    with files.channel(token_server.address) as channel:
        assert reason_of(channel, "ListGroups", "unknown") == "AUTHENTICATION_FAILED"

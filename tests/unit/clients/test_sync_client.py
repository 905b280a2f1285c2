"""offsetd_clients.sync.client"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from google.rpc.status_pb2 import Status
from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2, types_pb2
from offsetd_clients import (
    ClientClosed,
    CommitsUnanswered,
    Coordinator,
    DeletedGroup,
    DeletedOffsets,
    FieldViolation,
    GroupListing,
    GroupState,
    GroupType,
    InvalidRequest,
    OffsetClient,
    OffsetConflict,
    OffsetdError,
    OffsetToCommit,
    OverLimit,
    RetryPolicy,
    Revision,
    TopicPartition,
    Unavailable,
)

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
AT_7 = types_pb2.Revision(log_partition=12, log_offset=7)
COMMITTED = offset_service_pb2.CommitOffsetsResponse(revision=AT_7)


@pytest.fixture
def client(fake_server: Any) -> Iterator[OffsetClient]:
    with OffsetClient(fake_server.address, retry=RetryPolicy(timeout_s=10)) as client:
        yield client


def test_a_commit_carries_all_offsets_and_answers_with_its_revision(
    fake_server: Any, client: OffsetClient
) -> None:
    fake_server.will_answer("CommitOffsets", COMMITTED)
    revision = client.commit("billing", {ORDERS_0: 42, ORDERS_1: OffsetToCommit(7, monotonic=True)})
    assert revision == Revision(log_partition=12, log_offset=7)
    (request,) = fake_server.requests
    assert [(o.partition, o.offset, o.monotonic) for o in request.offsets] == [
        (0, 42, False),
        (1, 7, True),
    ]


@pytest.mark.parametrize(
    ("method", "answer", "call"),
    [
        ("CommitOffsets", COMMITTED, lambda client: client.commit("g", {ORDERS_0: 1})),
        (
            "DeleteOffsets",
            offset_service_pb2.DeleteOffsetsResponse(),
            lambda client: client.delete_offsets("g", [ORDERS_0]),
        ),
        (
            "DeleteGroup",
            group_service_pb2.DeleteGroupResponse(),
            lambda client: client.delete_group("g"),
        ),
    ],
)
def test_a_write_is_sent_again_under_the_same_request_id(
    fake_server: Any,
    client: OffsetClient,
    failed: Callable[..., Status],
    method: str,
    answer: Any,
    call: Callable[[OffsetClient], object],
) -> None:
    loading = failed("UNAVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", retry_after_ms=1)
    fake_server.will_answer(method, loading, loading, answer, answer)
    call(client)
    call(client)
    first, second, third, other = [request.request_id for request in fake_server.requests]
    assert first
    assert first == second == third
    assert other != first


def test_a_request_id_of_the_callers_own_is_used(fake_server: Any, client: OffsetClient) -> None:
    fake_server.will_answer("CommitOffsets", COMMITTED)
    client.commit("g", {ORDERS_0: 1}, request_id="mine")
    assert fake_server.requests[0].request_id == "mine"


def test_the_server_is_told_what_is_left_of_the_deadline(
    fake_server: Any, failed: Callable[..., Status]
) -> None:
    loading = failed("UNAVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", retry_after_ms=2000)
    fake_server.will_answer("CommitOffsets", loading, COMMITTED)
    policy = RetryPolicy(timeout_s=30, try_timeout_s=30)
    with OffsetClient(fake_server.address, retry=policy) as client:
        client.commit("g", {ORDERS_0: 1})
    first_s, second_s = fake_server.timeouts_s
    # gRPC rounds what it sends up, by a few hundred milliseconds here.
    assert second_s < first_s - 1


def test_a_lost_comparison_has_what_is_stored_and_is_not_sent_again(
    fake_server: Any, client: OffsetClient, failed: Callable[..., Status]
) -> None:
    conflicts = '[{"topic":"orders","partition":0,"offset":9,"revision":3}]'
    status = failed("ABORTED", "OFFSET_CONFLICT", conflicts=conflicts, conflict_count="1")
    fake_server.will_answer("CommitOffsets", status)
    with pytest.raises(OffsetConflict, match="it went wrong") as raised:
        client.commit("g", {ORDERS_0: OffsetToCommit(10, expected_offset=8)})
    (conflict,) = raised.value.conflicts
    assert (conflict.topic_partition, conflict.offset, conflict.revision) == (ORDERS_0, 9, 3)
    assert raised.value.details["conflict_count"] == "1"
    assert len(fake_server.requests) == 1


def test_an_invalid_field_is_named(
    fake_server: Any, client: OffsetClient, failed: Callable[..., Status]
) -> None:
    violations = {"offsets[0].topic": "must not be empty"}
    status = failed("INVALID_ARGUMENT", "INVALID_TOPIC", violations=violations)
    fake_server.will_answer("CommitOffsets", status)
    with pytest.raises(InvalidRequest) as raised:
        client.commit("g", {TopicPartition("", 0): 10})
    assert raised.value.field_violations == (
        FieldViolation(field="offsets[0].topic", description="must not be empty"),
    )


def test_a_server_that_cannot_be_reached_is_unavailable_and_the_outcome_unknown() -> None:
    with (
        OffsetClient("127.0.0.1:1", retry=RetryPolicy(timeout_s=0.2)) as client,
        pytest.raises(Unavailable) as raised,
    ):
        client.commit("g", {ORDERS_0: 1})
    assert raised.value.retriable
    assert raised.value.outcome_unknown
    assert raised.value.reason == ""


def test_a_fetch_of_chosen_partitions_asks_for_these(
    fake_server: Any, client: OffsetClient
) -> None:
    stored = offset_service_pb2.CommittedOffset(topic="orders", partition=1, offset=5, revision=2)
    group = offset_service_pb2.GroupOffsets(group_id="g", offsets=[stored])
    response = offset_service_pb2.FetchOffsetsResponse(groups=[group])
    fake_server.will_answer("FetchOffsets", response)
    offsets = client.fetch("g", [ORDERS_0, ORDERS_1], require_stable=True)
    assert {partition: offset.offset for partition, offset in offsets.items()} == {ORDERS_1: 5}
    (request,) = fake_server.requests
    assert [p.partition for p in request.groups[0].partitions] == [0, 1]
    assert request.require_stable


def test_a_fetch_of_no_partitions_is_not_a_fetch_of_all(
    fake_server: Any, client: OffsetClient
) -> None:
    assert client.fetch("g", []) == {}
    assert client.fetch_many([]) == {}
    assert fake_server.requests == []


def test_many_groups_are_fetched_in_one_call(fake_server: Any, client: OffsetClient) -> None:
    response = offset_service_pb2.FetchOffsetsResponse(
        groups=[
            offset_service_pb2.GroupOffsets(
                group_id="a", offsets=[offset_service_pb2.CommittedOffset(topic="t", offset=1)]
            ),
            offset_service_pb2.GroupOffsets(group_id="b"),
        ]
    )
    fake_server.will_answer("FetchOffsets", response)
    offsets = client.fetch_many(["a", "b", "a"])
    assert offsets["a"][TopicPartition("t", 0)].offset == 1
    assert offsets["b"] == {}
    (request,) = fake_server.requests
    assert [group.group_id for group in request.groups] == ["a", "b"]


def test_deleted_offsets_are_what_was_there(fake_server: Any, client: OffsetClient) -> None:
    deleted = [types_pb2.TopicPartition(topic="orders", partition=1)]
    response = offset_service_pb2.DeleteOffsetsResponse(revision=AT_7, deleted=deleted)
    fake_server.will_answer("DeleteOffsets", response)
    answer = client.delete_offsets("g", [ORDERS_0], topics=["orders"], validate_only=True)
    assert answer == DeletedOffsets(partitions=(ORDERS_1,), revision=Revision(12, 7))
    (request,) = fake_server.requests
    assert (list(request.topics), request.validate_only) == (["orders"], True)


def test_a_deleted_group_took_its_offsets_with_it(fake_server: Any, client: OffsetClient) -> None:
    response = group_service_pb2.DeleteGroupResponse(offset_count=3)
    fake_server.will_answer("DeleteGroup", response)
    answer = client.delete_group("g", validate_only=True, reason="retired")
    assert answer == DeletedGroup(offset_count=3, revision=None)
    assert fake_server.requests[0].reason == "retired"


def test_groups_are_listed_page_after_page(fake_server: Any, client: OffsetClient) -> None:
    pages = [
        group_service_pb2.ListGroupsResponse(
            groups=[
                group_service_pb2.GroupListing(
                    group_id=group_id,
                    type="GROUP_TYPE_CLASSIC",
                    state="GROUP_STATE_EMPTY",
                )
                for group_id in group_ids
            ],
            next_page_token=token,
        )
        for group_ids, token in [(["a", "b"], "after b"), ([], "after nothing"), (["c"], "")]
    ]
    fake_server.will_answer("ListGroups", *pages)
    listed = list(
        client.list_groups(
            states=iter([GroupState.EMPTY]),
            types=iter([GroupType.CLASSIC]),
            group_id_prefix="",
            page_size=2,
        )
    )
    assert listed == [
        GroupListing(
            group_id=group_id, type=GroupType.CLASSIC, state=GroupState.EMPTY, protocol_type=""
        )
        for group_id in "abc"
    ]
    tokens = [request.page_token for request in fake_server.requests]
    assert tokens == ["", "after b", "after nothing"]
    for request in fake_server.requests:
        assert list(request.states) == [group_service_pb2.GROUP_STATE_EMPTY]
        assert list(request.types) == [group_service_pb2.GROUP_TYPE_CLASSIC]
        assert request.page_size == 2


def test_a_group_comes_with_its_members(fake_server: Any, client: OffsetClient) -> None:
    message = group_service_pb2.Group(
        group_id="g",
        type="GROUP_TYPE_CONSUMER",
        state="GROUP_STATE_STABLE",
        members=[
            group_service_pb2.GroupMember(
                member_id="m",
                topics=["orders"],
                assignment=[types_pb2.TopicPartition(topic="orders", partition=1)],
            )
        ],
    )
    fake_server.will_answer("GetGroup", group_service_pb2.GetGroupResponse(group=message))
    group = client.get_group("g")
    assert (group.type, group.state) == (GroupType.CONSUMER, GroupState.STABLE)
    assert group.members[0].assignment == (ORDERS_1,)
    assert group.state_time is None


def test_a_groups_owner_is_told(fake_server: Any, client: OffsetClient) -> None:
    response = admin_service_pb2.FindCoordinatorResponse(
        log_partition=12, node_id="n", address="10.0.0.2:7171"
    )
    fake_server.will_answer("FindCoordinator", response)
    owner = client.find_coordinator("g")
    assert owner == Coordinator(log_partition=12, node_id="n", address="10.0.0.2:7171")
    assert fake_server.requests[0].group_id == "g"


def test_a_try_that_gets_no_answer_leaves_time_for_another(fake_server: Any) -> None:
    fake_server.will_answer("CommitOffsets", fake_server.silence, COMMITTED)
    policy = RetryPolicy(timeout_s=60, try_timeout_s=1)
    with OffsetClient(fake_server.address, retry=policy) as client:
        assert client.commit("g", {ORDERS_0: 1}) == Revision(12, 7)
    first, second = fake_server.requests
    assert first == second, "a late first try must not be applied twice"


@pytest.mark.parametrize("retry_after_ms", [1, None])
def test_what_is_over_a_limit_is_sent_again_if_the_server_says_when(
    fake_server: Any,
    client: OffsetClient,
    failed: Callable[..., Status],
    retry_after_ms: int | None,
) -> None:
    full = failed("RESOURCE_EXHAUSTED", "DISK_FULL", retry_after_ms=retry_after_ms)
    fake_server.will_answer("CommitOffsets", full, COMMITTED)
    if retry_after_ms is not None:
        assert client.commit("g", {ORDERS_0: 1}) == Revision(12, 7)
        return
    with pytest.raises(OverLimit):
        client.commit("g", {ORDERS_0: 1})
    assert len(fake_server.requests) == 1


def test_a_closed_client_says_so(fake_server: Any) -> None:
    client = OffsetClient(fake_server.address)
    client.close()
    client.close()
    with pytest.raises(ClientClosed, match="the client is closed") as raised:
        client.commit("g", {ORDERS_0: 1})
    assert not raised.value.outcome_unknown
    assert not raised.value.retriable
    assert fake_server.requests == []


def test_a_call_in_flight_when_the_client_closes_may_have_been_applied(fake_server: Any) -> None:
    fake_server.will_answer("CommitOffsets", fake_server.silence)
    client = OffsetClient(fake_server.address)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.commit, "g", {ORDERS_0: 1})
        assert fake_server.asked.wait(60)
        with pytest.raises(CommitsUnanswered):
            client.close(timeout_s=0)
        with pytest.raises(ClientClosed, match="an answer was awaited") as raised:
            call.result(60)
    assert raised.value.outcome_unknown


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda client: client.fetch("g", "orders"), "partitions: one str where a list"),
        (lambda client: client.fetch("g", ORDERS_0), "partitions: one TopicPartition where"),
        (lambda client: client.fetch("g", ["orders"]), "'orders' is not a TopicPartition"),
        (lambda client: client.fetch_many("billing"), "group_ids: one str where a list"),
        (lambda client: client.delete_offsets("g", topics="orders"), "topics: one str where"),
        (lambda client: client.delete_offsets("g", "orders"), "partitions: one str where"),
        (lambda client: client.commit("g", {("orders", 0): 1}), r"\('orders', 0\) is not a Topic"),
        (lambda client: client.commit("g", [ORDERS_0]), "offsets: a mapping"),
        (lambda client: client.commit("g", {ORDERS_0: "1"}), "'1' is not a whole number"),
        (lambda client: client.commit(7, {ORDERS_0: 1}), "commit: "),
        (
            lambda client: list(client.list_groups(states=GroupState.EMPTY)),
            "states: one GroupState where a list",
        ),
        (
            lambda client: list(client.list_groups(types=GroupType.CLASSIC)),
            "types: one GroupType where a list",
        ),
    ],
)
def test_an_argument_of_another_kind_is_refused_before_anything_is_sent(
    fake_server: Any, client: OffsetClient, call: Callable[[OffsetClient], object], complaint: str
) -> None:
    with pytest.raises(TypeError, match=complaint):
        call(client)
    assert fake_server.requests == []


def test_whole_numbers_may_be_numpys(fake_server: Any, client: OffsetClient) -> None:
    fake_server.will_answer("CommitOffsets", COMMITTED)
    where = TopicPartition("orders", np.int32(1))
    client.commit("g", {ORDERS_0: np.int64(42), where: OffsetToCommit(np.uint8(7))})
    (request,) = fake_server.requests
    assert [(each.partition, each.offset) for each in request.offsets] == [(0, 42), (1, 7)]
    assert where == ORDERS_1


@pytest.mark.parametrize(
    ("environment", "given", "expected"),
    [
        (None, None, "127.0.0.1:7171"),
        ("", None, "127.0.0.1:7171"),
        ("offsets:1", None, "offsets:1"),
        ("offsets:1", "other:2", "other:2"),
    ],
)
def test_the_address_is_the_one_given_else_the_environments_else_the_default(
    monkeypatch: pytest.MonkeyPatch, environment: str | None, given: str | None, expected: str
) -> None:
    monkeypatch.delenv("OFFSETD_ADDRESS", raising=False)
    if environment is not None:
        monkeypatch.setenv("OFFSETD_ADDRESS", environment)
    with OffsetClient(given) as client:
        assert client.address == expected


def test_every_typed_error_is_public() -> None:
    import offsetd_clients
    from offsetd_clients import errors

    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, OffsetdError):
            assert name in offsetd_clients.__all__


def test_the_client_imports_nothing_of_the_server() -> None:
    program = (
        "import sys, offsetd_clients\n"
        "from offsetd_clients import AsyncOffsetClient, OffsetClient\n"
        "print(len(sys.modules), *sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    count, *names = printed.stdout.split()
    others = {
        "offsetd_storage", "offsetd_coordinator", "offsetd_pipeline", "numba", "numpy", "uvloop",
        "structlog", "cramjam", "typer", "rich", "click", "confluent_kafka", "kazoo", "pyspark",
    }  # fmt: skip
    assert not {name.partition(".")[0] for name in names} & others
    ours = {".".join(name.split(".")[:2]) for name in names if name.startswith("offsetd_clients.")}
    assert not ours & {f"offsetd_clients.{each}" for each in ("cli", "kafka", "migration")}
    # Python's own, gRPC's and protobuf's are 300. Each takes its part of the import's time.
    assert int(count) < 400

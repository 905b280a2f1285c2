"""Every reason of the public enum is provoked over gRPC, by a call that changes nothing.

Here, or by the test that `ELSEWHERE` names. A reason that nobody provokes fails the last test.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from offsetd.v1 import (
    admin_service_pb2,
    error_reason_pb2,
    group_service_pb2,
    history_pb2,
    offset_service_pb2,
    types_pb2,
)
from refusals import details
from server_process import ServerProcess, Stubs, poll, servers_are_clusters
from shards import batch_of, offset_key, offset_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Provocation = Callable[[Stubs], object]

TESTS = Path(__file__).parents[1]
WAIT_SECONDS = 60
MIB = 1 << 20
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "max.message.bytes": 4 * MIB,
    "socket.request.max.bytes": 8 * MIB,
}
# A server that is meaner, for what has to do with how much is asked, and when.
MEAN_SETTINGS = {
    "group.initial.rebalance.delay.ms": 5000,
    "queued.max.request.bytes": 100_000,
    "group.commit.rate.max": 1,
    "group.commit.burst.max": 1,
    "watch.watchers.max": 1,
    "kafka.bootstrap.servers": "127.0.0.1:1",
}


def offset(value: int = 42, **fields: Any) -> offset_service_pb2.OffsetCommit:
    return offset_service_pb2.OffsetCommit(
        **{"topic": "orders", "partition": 0, "offset": value, **fields}
    )


def commit(
    group_id: str, *offsets: offset_service_pb2.OffsetCommit, **fields: Any
) -> offset_service_pb2.CommitOffsetsRequest:
    return offset_service_pb2.CommitOffsetsRequest(group_id=group_id, offsets=offsets, **fields)


def join(group_id: str, **fields: Any) -> group_service_pb2.JoinGroupRequest:
    subscription = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
    request = group_service_pb2.JoinGroupRequest(
        group_id=group_id, protocol_type="consumer", client_id="c", **fields
    )
    request.session_timeout.seconds = 60
    request.protocols.add(name="range", metadata=subscription)
    return request


def fetch(group_id: str, **fields: Any) -> offset_service_pb2.FetchOffsetsRequest:
    return offset_service_pb2.FetchOffsetsRequest(
        groups=[offset_service_pb2.GroupSelection(group_id=group_id)], **fields
    )


def reset(group_id: str, **fields: Any) -> offset_service_pb2.ResetOffsetsRequest:
    return offset_service_pb2.ResetOffsetsRequest(group_id=group_id, **fields)


def committed(stubs: Stubs, request: offset_service_pb2.CommitOffsetsRequest) -> object:
    return stubs.offsets.CommitOffsets(request)


def old_folder(folder: Path) -> Path:
    """As a broker left it: with a transaction that is open, and a value that nobody can read."""
    partition = folder / "__consumer_offsets-0"
    partition.mkdir(parents=True)
    transactional: dict[str, Any] = {"producer_id": 5, "is_transactional": True}
    batches = [
        batch_of(0, (offset_key("unreadable", "orders"), b"\0\x09")),
        batch_of(1, (offset_key("pending", "orders"), offset_value(1)), **transactional),
    ]
    (partition / f"{0:020d}.log").write_bytes(b"".join(batches))
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("data") / "offsets"
    if not servers_are_clusters():
        old_folder(folder)
    with ServerProcess(folder, settings=SETTINGS) as process:
        yield process.wait_until_serving()
        assert process.stop() == 0, process.log


@pytest.fixture(scope="module")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """A group "simple" with an offset, "leased" with a lease, "live" with the member "i"."""
    with server.channel(max_receive_message_length=-1) as channel:
        stubs = Stubs(channel)
        for group_id in ("simple", "other"):
            committed(stubs, commit(group_id, offset()))
        lease = group_service_pb2.AcquireGroupRequest(group_id="leased", holder="a")
        lease.ttl.seconds = 3600
        stubs.groups.AcquireGroup(lease)
        first = stubs.groups.JoinGroup(join("live", instance_id="i"), timeout=WAIT_SECONDS)
        stubs.groups.SyncGroup(
            group_service_pb2.SyncGroupRequest(
                group_id="live",
                member_id=first.member_id,
                generation_id=first.generation_id,
                instance_id="i",
            )
        )
        large = [offset(topic=f"t{n}", metadata="m" * 4096) for n in range(900)]
        for round_ in range(19):
            for each in large:
                each.partition = round_
            committed(stubs, commit("large", *large))
        yield stubs


def heartbeat(generation_id: int, member_id: str) -> Provocation:
    request = group_service_pb2.HeartbeatRequest(
        group_id="live", member_id=member_id, generation_id=generation_id, instance_id="i"
    )
    return lambda stubs: stubs.groups.Heartbeat(request)


def as_its_member(call: Callable[[Stubs, Any], object]) -> Provocation:
    """A call that knows who is the member of "live"."""

    def provoke(stubs: Stubs) -> object:
        described = stubs.groups.GetGroup(group_service_pb2.GetGroupRequest(group_id="live"))
        return call(stubs, described.group)

    return provoke


def import_of(content: bytes) -> Provocation:
    options = admin_service_pb2.ImportOffsetsOptions(
        format=admin_service_pb2.OFFSET_FORMAT_KAFKA_CSV, group_id="simple"
    )
    messages = [
        admin_service_pb2.ImportOffsetsRequest(options=options),
        admin_service_pb2.ImportOffsetsRequest(content=content),
    ]
    return lambda stubs: stubs.admin.ImportOffsets(iter(messages))


REASONS: dict[str, Provocation] = {
    "GROUP_ID_NOT_FOUND": lambda stubs: stubs.groups.GetGroup(
        group_service_pb2.GetGroupRequest(group_id="nobody")
    ),
    "NON_EMPTY_GROUP": lambda stubs: stubs.groups.DeleteGroup(
        group_service_pb2.DeleteGroupRequest(group_id="live")
    ),
    "UNKNOWN_MEMBER_ID": lambda stubs: committed(stubs, commit("live", offset())),
    "GROUP_SUBSCRIBED_TO_TOPIC": lambda stubs: stubs.offsets.DeleteOffsets(
        offset_service_pb2.DeleteOffsetsRequest(group_id="live", topics=["orders"])
    ),
    "ILLEGAL_GENERATION": as_its_member(
        lambda stubs, group: heartbeat(99, group.members[0].member_id)(stubs)
    ),
    "FENCED_INSTANCE_ID": heartbeat(1, "i-of-old"),
    "MEMBER_ID_REQUIRED": lambda stubs: stubs.groups.JoinGroup(join("live")),
    "EPOCH_FENCED": lambda stubs: committed(stubs, commit("leased", offset(), epoch=999)),
    "LEASE_HELD": lambda stubs: committed(stubs, commit("leased", offset())),
    "OFFSET_BOUNDS_UNKNOWN": lambda stubs: stubs.offsets.ResetOffsets(
        reset("simple", earliest=True)
    ),
    "OFFSET_NOT_COMMITTED": lambda stubs: stubs.offsets.ResetOffsets(
        reset(
            "simple",
            partitions=[types_pb2.TopicPartition(topic="nothing", partition=0)],
            shift_by=1,
        )
    ),
    "OFFSET_OUT_OF_RANGE": lambda stubs: stubs.offsets.ResetOffsets(
        reset(
            "simple",
            offset=500,
            bounds=[
                offset_service_pb2.PartitionBounds(
                    topic="orders", partition=0, earliest=0, latest=100
                )
            ],
        )
    ),
    "GROUP_EXISTS": lambda stubs: stubs.groups.CloneGroup(
        group_service_pb2.CloneGroupRequest(source_group_id="simple", target_group_id="other")
    ),
    "INVALID_IMPORT": import_of(b"orders,nought,1\n"),
    "OFFSET_CONFLICT": lambda stubs: committed(
        stubs, commit("simple", offset(partition=1), offset(43, expected_offset=7))
    ),
    "OFFSET_NOT_MONOTONIC": lambda stubs: committed(
        stubs, commit("simple", offset(partition=1), offset(41, monotonic=True))
    ),
    "UNSTABLE_OFFSET_COMMIT": lambda stubs: stubs.offsets.FetchOffsets(
        fetch("pending", require_stable=True)
    ),
    "RECORD_UNDECODABLE": lambda stubs: stubs.offsets.FetchOffsets(fetch("unreadable")),
    "RESPONSE_TOO_LARGE": lambda stubs: stubs.offsets.FetchOffsets(fetch("large")),
}


def held(stubs: Stubs) -> list[Any]:
    """All but the groups that answer no fetch."""
    listed = stubs.groups.ListGroups(group_service_pb2.ListGroupsRequest()).groups
    fetched = [
        stubs.offsets.FetchOffsets(fetch(each.group_id))
        for each in listed
        if each.group_id not in ("unreadable", "large")
    ]
    log = stubs.admin.DescribeLog(admin_service_pb2.DescribeLogRequest())
    return [listed, fetched, [each.log_end_offset for each in log.partitions]]


OF_ONE_SERVER = {
    "UNSTABLE_OFFSET_COMMIT": "of a record in the old folder, which no cluster takes",
    "RECORD_UNDECODABLE": "of a record in the old folder, which no cluster takes",
    "TOO_MANY_BYTES_IN_FLIGHT": "each node has its own limit, and its own groups",
}


def cases(reasons: Iterable[str]) -> list[Any]:
    """Parameters; what is about one server is marked."""
    single = [pytest.mark.single_server]
    return [pytest.param(each, marks=single if each in OF_ONE_SERVER else []) for each in reasons]


@pytest.mark.parametrize("reason", cases(REASONS))
def test_a_reason_is_provoked_and_nothing_has_changed(stubs: Stubs, reason: str) -> None:
    before = held(stubs)
    with pytest.raises(grpc.RpcError) as caught:
        REASONS[reason](stubs)
    assert details(caught.value)[1] == reason
    assert held(stubs) == before


@pytest.fixture(scope="module")
def mean_stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    folder = tmp_path_factory.mktemp("data")
    with ServerProcess(folder, settings=MEAN_SETTINGS) as process:
        process.wait_until_serving()
        with process.channel() as channel:
            stubs = Stubs(channel)
            committed(stubs, commit("simple", offset()))
            yield stubs
        assert process.stop() == 0, process.log


def commits_on_and_on(stubs: Stubs) -> None:
    """To a group that is refused from the second on, if not a second lies between."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        committed(stubs, commit("simple", offset()))


def one_watcher_too_many(stubs: Stubs) -> None:
    first = stubs.offsets.WatchOffsets(
        history_pb2.WatchOffsetsRequest(group_ids=["simple"], from_oldest=True),
        timeout=WAIT_SECONDS,
    )
    next(first)
    second = history_pb2.WatchOffsetsRequest(group_ids=["simple"])
    try:
        next(stubs.offsets.WatchOffsets(second, timeout=WAIT_SECONDS))
    finally:
        first.cancel()


def two_large_calls(stubs: Stubs) -> None:
    """One waits for others to join; with it, the second is too much."""
    waiting = join("waiting", instance_id="i")
    waiting.protocols[0].metadata = bytes(80_000)
    call = stubs.groups.JoinGroup.future(waiting, timeout=WAIT_SECONDS)
    many = [offset(partition=n, metadata="m" * 4000) for n in range(10)]
    try:
        poll(lambda: _is_listed(stubs, "waiting"), WAIT_SECONDS)
        committed(stubs, commit("beside", *many))
    finally:
        call.cancel()
        assert not _is_listed(stubs, "beside")


def _is_listed(stubs: Stubs, group_id: str) -> bool:
    listed = stubs.groups.ListGroups(group_service_pb2.ListGroupsRequest()).groups
    return any(each.group_id == group_id for each in listed)


MEAN_REASONS: dict[str, Provocation] = {
    "KAFKA_UNAVAILABLE": lambda stubs: stubs.offsets.ResetOffsets(
        reset("simple", latest=True), timeout=WAIT_SECONDS
    ),
    "COMMIT_RATE_EXCEEDED": commits_on_and_on,
    "TOO_MANY_WATCHERS": one_watcher_too_many,
    "TOO_MANY_BYTES_IN_FLIGHT": two_large_calls,
}


@pytest.mark.parametrize("reason", cases(MEAN_REASONS))
def test_a_mean_servers_reason_is_provoked(mean_stubs: Stubs, reason: str) -> None:
    fetched = mean_stubs.offsets.FetchOffsets(fetch("simple"))
    with pytest.raises(grpc.RpcError) as caught:
        MEAN_REASONS[reason](mean_stubs)
    assert details(caught.value)[1] == reason
    if reason != "COMMIT_RATE_EXCEEDED":  # Of which the first ones are done.
        assert mean_stubs.offsets.FetchOffsets(fetch("simple")) == fetched


_RIGHTS = "security/test_rights_matrix.py::test_each_kind_of_refusal_has_a_reason_of_its_own"
ELSEWHERE = {
    "QUOTA_EXCEEDED": "security/test_quotas_of_callers.py::test_every_method_counts_as_a_call",
    "AUTHENTICATION_FAILED": _RIGHTS,
    "GROUP_AUTHORIZATION_FAILED": _RIGHTS,
    "TOPIC_AUTHORIZATION_FAILED": _RIGHTS,
    "CLUSTER_AUTHORIZATION_FAILED": _RIGHTS,
    **dict.fromkeys(
        (
            "INVALID_GROUP_ID",
            "INVALID_TOPIC",
            "INVALID_PARTITION",
            "INVALID_OFFSET",
            "INVALID_LEADER_EPOCH",
            "INVALID_METADATA",
            "INVALID_PRECONDITION",
            "INVALID_REQUEST_ID",
            "INVALID_REQUEST",
            "INVALID_COMMIT_SIZE",
        ),
        "fault/test_bad_input.py::test_a_bad_commit_names_its_field_and_changes_nothing",
    ),
    "INVALID_PAGE_TOKEN": "fault/test_bad_input.py::test_other_bad_requests_are_refused_too",
    "REQUEST_TOO_LARGE": (
        "fault/test_bad_input.py"
        "::test_a_message_over_the_limit_is_refused_and_the_connection_goes_on"
    ),
    **dict.fromkeys(
        ("INVALID_CONFIG", "POLICY_VIOLATION"),
        "fault/test_administration.py::test_what_is_refused_says_why_and_changes_nothing",
    ),
    **dict.fromkeys(
        (
            "INVALID_SESSION_TIMEOUT",
            "INVALID_MEMBER_ID",
            "INVALID_INSTANCE_ID",
            "INVALID_PROTOCOL",
            "INCONSISTENT_GROUP_PROTOCOL",
        ),
        "fault/test_membership.py::test_every_refusal_of_a_member_leaves_everything_as_it_was",
    ),
    "GROUP_MAX_SIZE_REACHED": (
        "fault/test_membership.py::test_a_group_takes_no_more_members_than_it_may_have"
    ),
    "GROUP_RECORD_TOO_LARGE": (
        "fault/test_membership.py"
        "::test_assignments_that_fit_no_record_are_refused_and_the_members_join_again"
    ),
    **dict.fromkeys(
        ("INVALID_LEASE", "INVALID_RETENTION"),
        "fault/test_leases.py::test_what_breaks_a_rule_is_refused_and_changes_nothing",
    ),
    "STORAGE_FAILED": (
        "fault/test_failing_disk.py"
        "::test_after_an_error_of_the_disk_nothing_is_acknowledged_and_the_process_ends"
    ),
    "DISK_FULL": (
        "fault/test_failing_disk.py"
        "::test_a_full_disk_refuses_commits_and_serves_the_rest_until_there_is_room"
    ),
    "COORDINATOR_LOAD_IN_PROGRESS": (
        "fault/test_server_life.py"
        "::test_while_it_loads_calls_are_told_to_come_again_and_a_stop_stops_it"
    ),
    "COORDINATOR_NOT_AVAILABLE": (
        "fault/test_server_life.py::test_draining_is_announced_before_calls_are_refused"
    ),
    "PARTITION_QUARANTINED": (
        "fault/test_server_life.py::test_a_damaged_partition_answers_data_loss_and_the_others_serve"
    ),
}
# By the client's exceptions, which `test_errors` knows by their reasons.
BY_THE_CLIENT = {
    "REBALANCE_IN_PROGRESS": (
        "fault/test_membership.py::test_clients_form_a_group_share_it_and_leave"
    ),
    "COMPACTED": "fault/test_history.py::test_a_watcher_is_told_what_was_cleaned_away",
    "WATCHER_TOO_SLOW": (
        "fault/test_history.py::test_a_watcher_that_does_not_read_is_cut_off_and_goes_on"
    ),
    "DEADLINE_SPENT": "fault/test_bad_input.py::test_a_deadline_that_is_spent_commits_nothing",
}
NOT_TO_BE_PROVOKED = {
    "UNSPECIFIED": "it is none",
    "INTERNAL": "a defect of the server's",
    "NOT_COORDINATOR": "one node owns all groups",
}


def test_every_reason_is_provoked_by_somebody() -> None:
    values = error_reason_pb2.DESCRIPTOR.enum_types_by_name["ErrorReason"].values
    names = [each.name.removeprefix("ERROR_REASON_") for each in values]
    tables = [REASONS, MEAN_REASONS, ELSEWHERE, BY_THE_CLIENT, NOT_TO_BE_PROVOKED]
    placed = [reason for table in tables for reason in table]
    assert sorted(placed) == sorted(names)


@pytest.mark.parametrize("reason", [*ELSEWHERE, *BY_THE_CLIENT])
def test_who_provokes_it_elsewhere_is_there(reason: str) -> None:
    path, _, name = {**ELSEWHERE, **BY_THE_CLIENT}[reason].partition("::")
    text = (TESTS / path).read_text()
    assert f"def {name}(" in text
    assert reason in BY_THE_CLIENT or f'"{reason}"' in text

"""offsetd_clients.cli.groups.group_commands, run in this process."""

from collections.abc import Callable
from datetime import timedelta
from textwrap import dedent
from typing import Any

import pytest
from cli_calls import Ended, offsetd_of
from google.rpc.status_pb2 import Status
from offsetd.v1 import group_service_pb2, offset_service_pb2, types_pb2


@pytest.fixture
def offsetd(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    return offsetd_of(fake_server.address, monkeypatch)


def test_list_prints_groups_and_passes_the_filters_on(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    groups = [
        group_service_pb2.GroupListing(
            group_id="app-1",
            type="GROUP_TYPE_CLASSIC",
            state="GROUP_STATE_EMPTY",
            retention=types_pb2.Retention(never=True),
        ),
        group_service_pb2.GroupListing(
            group_id="app-2",
            type="GROUP_TYPE_CONSUMER",
            state="GROUP_STATE_STABLE",
            protocol_type="consumer",
            lag=7,
        ),
    ]
    fake_server.will_answer("ListGroups", group_service_pb2.ListGroupsResponse(groups=groups))
    ended = offsetd(
        *["groups", "list", "--prefix", "app-", "--type", "classic", "--type", "consumer"],
        *["--state", "empty", "--state", "preparing-rebalance"],
    )
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout == dedent(
        """\
        GROUP  TYPE      STATE   PROTOCOL-TYPE  RETENTION  VERDICT  LAG
        app-1  classic   empty   -              never      -          -
        app-2  consumer  stable  consumer       -          -          7
        """
    )
    (request,) = fake_server.requests
    assert request.group_id_prefix == "app-"
    assert len(request.types) == 2
    assert list(request.states) == [
        group_service_pb2.GROUP_STATE_EMPTY,
        group_service_pb2.GROUP_STATE_PREPARING_REBALANCE,
    ]


def test_list_sorts_what_comes_in_the_logs_order(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    pages = [
        group_service_pb2.ListGroupsResponse(
            groups=[
                group_service_pb2.GroupListing(
                    group_id=name, type="GROUP_TYPE_CLASSIC", state="GROUP_STATE_EMPTY"
                )
                for name in names
            ],
            next_page_token=token,
        )
        for names, token in ((["c", "z"], "more"), (["a", "é"], "more"), (["b"], ""))
    ]
    fake_server.will_answer("ListGroups", *pages)
    ended = offsetd("groups", "list", "-o", "csv")
    assert [line.split(",")[0] for line in ended.stdout.splitlines()[1:]] == list("abczé")


def test_delete_goes_on_after_a_group_that_is_not_empty(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status]
) -> None:
    refused = failed("FAILED_PRECONDITION", "NON_EMPTY_GROUP", "group b has members")
    deleted = group_service_pb2.DeleteGroupResponse(
        revision=types_pb2.Revision(log_partition=1, log_offset=0), offset_count=3
    )
    fake_server.will_answer("DeleteGroup", deleted, refused, deleted)
    ended = offsetd("groups", "delete", "a", "b", "c", "--reason", "retired")
    assert ended == Ended(
        3,
        "GROUP  OFFSETS  REVISION\na            3         0\nc            3         0\n",
        "error: group b: NON_EMPTY_GROUP: group b has members\n",
    )
    assert [request.group_id for request in fake_server.requests] == ["a", "b", "c"]
    assert {request.reason for request in fake_server.requests} == {"retired"}


def test_delete_stops_at_a_failure_that_is_not_the_groups_own(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status]
) -> None:
    fake_server.will_answer("DeleteGroup", failed("INTERNAL", "", "it went wrong"))
    ended = offsetd("groups", "delete", "a", "b", "-o", "csv")
    assert ended.code == 1
    assert ended.stderr.startswith("error: group a: ")
    assert len(fake_server.requests) == 1


def test_a_damaged_partition_stops_only_its_own_groups(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status]
) -> None:
    damaged = failed("DATA_LOSS", "PARTITION_QUARANTINED", "partition 3 is damaged")
    deleted = group_service_pb2.DeleteGroupResponse(offset_count=3)
    fake_server.will_answer("DeleteGroup", damaged, deleted)
    ended = offsetd("groups", "delete", "a", "b", "-o", "csv")
    assert ended == Ended(
        3,
        "group,offsets,revision\nb,3,\n",
        "error: group a: PARTITION_QUARANTINED: partition 3 is damaged\n",
    )


def test_a_dry_run_of_delete_only_validates(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    answer = group_service_pb2.DeleteGroupResponse(offset_count=3)
    fake_server.will_answer("DeleteGroup", answer)
    ended = offsetd("groups", "delete", "a", "--dry-run", "-o", "csv")
    assert ended == Ended(0, "group,offsets,revision\na,3,\n", "dry run: nothing was deleted\n")
    assert fake_server.requests[0].validate_only


@pytest.mark.parametrize("dry_run", [False, True])
def test_delete_of_topics_takes_their_offsets_and_leaves_the_group(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status], *, dry_run: bool
) -> None:
    gone = [types_pb2.TopicPartition(topic="orders", partition=each) for each in (0, 7)]
    answer = offset_service_pb2.DeleteOffsetsResponse(deleted=gone)
    if not dry_run:
        answer.revision.log_offset = 9
    subscribed = failed("FAILED_PRECONDITION", "GROUP_SUBSCRIBED_TO_TOPIC", "b reads orders")
    fake_server.will_answer("DeleteOffsets", answer, subscribed)
    flags = ["--dry-run"] if dry_run else []
    ended = offsetd(
        *["groups", "delete", "a", "b", "--topic", "old", "--topic", "orders:0,7", *flags],
        *["--reason", "gone", "-o", "csv"],
    )
    assert ended.code == 3
    assert ended.stdout == f"group,offsets,revision\na,2,{'' if dry_run else 9}\n"
    assert ended.stderr.endswith("error: group b: GROUP_SUBSCRIBED_TO_TOPIC: b reads orders\n")
    for request in fake_server.requests:
        assert list(request.topics) == ["old"]
        assert [each.partition for each in request.partitions] == [0, 7]
        assert (request.validate_only, request.reason) == (dry_run, "gone")


@pytest.mark.parametrize(
    "command", [("describe",), ("describe", "--members"), ("describe", "--state"), ("delete",)]
)
@pytest.mark.parametrize("output_format", ["table", "json", "csv"])
def test_where_no_group_was_found_only_that_is_said(
    fake_server: Any,
    offsetd: Callable[..., Ended],
    failed: Callable[..., Status],
    command: tuple[str, ...],
    output_format: str,
) -> None:
    for method in ("GetGroup", "DeleteGroup"):
        fake_server.will_answer(method, failed("NOT_FOUND", "GROUP_ID_NOT_FOUND", "no group"))
    ended = offsetd("groups", *command, "nope", "-o", output_format)
    assert ended == Ended(1, "", "error: group nope: GROUP_ID_NOT_FOUND: no group\n")


@pytest.mark.parametrize(
    ("text", "asked", "printed"),
    [
        ("36h", types_pb2.Retention(duration=timedelta(hours=36)), "36h"),
        ("4w", types_pb2.Retention(duration=timedelta(weeks=4)), "28d"),
        ("1500ms", types_pb2.Retention(duration=timedelta(seconds=1.5)), "1500ms"),
        ("never", types_pb2.Retention(never=True), "never"),
        ("default", types_pb2.Retention(), "-"),
    ],
)
def test_update_sets_the_retention(
    fake_server: Any,
    offsetd: Callable[..., Ended],
    text: str,
    asked: types_pb2.Retention,
    printed: str,
) -> None:
    revision = types_pb2.Revision(log_partition=12, log_offset=5)
    fake_server.will_answer("UpdateGroup", group_service_pb2.UpdateGroupResponse(revision=revision))
    ended = offsetd("groups", "update", "a", "--retention", text, "--reason", "audit")
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.split() == ["GROUP", "RETENTION", "REVISION", "a", printed, "5"]
    (request,) = fake_server.requests
    assert (request.retention, request.reason) == (asked, "audit")
    assert not request.validate_only


def test_update_can_be_tried_and_goes_on_after_a_group_that_is_not_there(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status]
) -> None:
    absent = failed("NOT_FOUND", "GROUP_ID_NOT_FOUND", "there is no group a")
    fake_server.will_answer("UpdateGroup", absent, group_service_pb2.UpdateGroupResponse())
    ended = offsetd("groups", "update", "a", "b", "--retention", "never", "--dry-run")
    assert ended.code == 3
    assert ended.stdout.split() == ["GROUP", "RETENTION", "REVISION", "b", "never", "-"]
    assert "dry run: nothing was changed" in ended.stderr
    assert all(request.validate_only for request in fake_server.requests)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "soon", "7", "d", "-1d", "1.5h", "7 d", "1" * 15 + "w"])
def test_a_retention_that_is_none_is_wrong_use(
    fake_server: Any, offsetd: Callable[..., Ended], text: str
) -> None:
    ended = offsetd("groups", "update", "a", f"--retention={text}")
    assert ended.code == 2
    assert fake_server.requests == []


REMOVED = group_service_pb2.LeftMember(member_id="m-1")
REMOVED_STATIC = group_service_pb2.LeftMember(instance_id="i")


def test_remove_members_names_them_and_prints_what_became_of_each(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status]
) -> None:
    error = failed("FAILED_PRECONDITION", "UNKNOWN_MEMBER_ID", "group g has no member 'x'")
    refused = group_service_pb2.LeftMember(member_id="x", error=error)
    answer = group_service_pb2.RemoveMembersResponse(members=[REMOVED, refused, REMOVED_STATIC])
    fake_server.will_answer("RemoveMembers", answer)
    ended = offsetd(
        *["groups", "remove-members", "g", "--member", "m-1", "--member", "x"],
        *["--instance", "i", "--reason", "stuck", "-o", "csv"],
    )
    assert ended == Ended(
        3,
        "group,member_id,instance_id,removed,problem\n"
        "g,m-1,,true,\n"
        "g,,i,true,\n"
        "g,x,,false,UNKNOWN_MEMBER_ID\n",
        "error: group g: UNKNOWN_MEMBER_ID: group g has no member 'x'\n",
    )
    [request] = fake_server.requests
    assert [(each.member_id, each.instance_id) for each in request.members] == [
        ("m-1", ""),
        ("x", ""),
        ("", "i"),
    ]
    assert (request.all, request.validate_only, request.reason) == (False, False, "stuck")
    assert request.request_id


def test_remove_members_removes_all_or_shows_who_that_would_be(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    answer = group_service_pb2.RemoveMembersResponse(members=[REMOVED])
    fake_server.will_answer("RemoveMembers", answer)
    ended = offsetd("groups", "remove-members", "g", "--all", "--dry-run", "-o", "csv")
    assert ended == Ended(
        0,
        "group,member_id,instance_id,removed,problem\ng,m-1,,false,\n",
        "dry run: no member was removed\n",
    )
    [request] = fake_server.requests
    assert (request.all, request.validate_only) == (True, True)
    fake_server.will_answer("RemoveMembers", group_service_pb2.RemoveMembersResponse())
    ended = offsetd("groups", "remove-members", "g", "--all")
    assert (ended.code, ended.stderr) == (0, "group g has no members\n")


@pytest.mark.parametrize("arguments", [(), ("--all", "--member", "m")])
def test_remove_members_wants_to_know_whom(
    fake_server: Any, offsetd: Callable[..., Ended], arguments: tuple[str, ...]
) -> None:
    ended = offsetd("groups", "remove-members", "g", *arguments)
    assert ended.code == 2
    assert not fake_server.requests


@pytest.mark.parametrize("text", ["Empty", "EMPTY", "empty"])
def test_a_state_is_taken_in_any_case(
    fake_server: Any, offsetd: Callable[..., Ended], text: str
) -> None:
    fake_server.will_answer("ListGroups", group_service_pb2.ListGroupsResponse())
    words = ("--state", text, "--state", "PreparingRebalance")
    ended = offsetd("groups", "list", *words)
    assert ended.code == 0, ended.stderr
    assert list(fake_server.requests[0].states) == [
        group_service_pb2.GROUP_STATE_EMPTY,
        group_service_pb2.GROUP_STATE_PREPARING_REBALANCE,
    ]


def test_a_state_that_is_none_is_wrong_use_and_not_repeated_whole(
    offsetd: Callable[..., Ended], capsys: pytest.CaptureFixture[str]
) -> None:
    assert offsetd("groups", "list", "--state", "x" * 70_000).code == 2
    told = capsys.readouterr().err
    assert "is not a state; the states are: empty, preparing-rebalance, " in told
    assert len(told) < 1_000

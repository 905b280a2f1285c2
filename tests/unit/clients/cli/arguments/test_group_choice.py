"""cli.arguments.group_choice: every command that is about groups takes them alike."""

from collections.abc import Callable
from typing import Any

import pytest
from cli_calls import Ended, offsetd_of
from cli_tree import commands
from offsetd.v1 import group_service_pb2, offset_service_pb2
from offsetd_clients.cli.arguments import group_choice

# What these do makes sense for one group alone.
OF_ONE_GROUP = ("commit", "groups clone", "groups import")
# Which groups it prints is what its filters say.
OF_A_FILTER = ("groups list",)
ABOUT_GROUPS = {
    " ".join(words): command
    for words, command in commands()
    if words[0] in ("commit", "fetch", "groups", "watch")
}
OF_MANY = sorted({*ABOUT_GROUPS} - {*OF_ONE_GROUP, *OF_A_FILTER})
# Those that change groups at once where they are named.
AT_ONCE = {
    "groups delete": (),
    "groups offset-delete": ("--topic", "orders"),
    "groups remove-members": ("--all",),
    "groups update": ("--retention", "never"),
}


@pytest.fixture
def offsetd(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    return offsetd_of(fake_server.address, monkeypatch)


@pytest.mark.parametrize("name", OF_MANY)
def test_groups_are_named_in_every_way(name: str) -> None:
    options = {opt for each in ABOUT_GROUPS[name].params for opt in each.opts}
    assert {"group_ids", "--group", "--all-groups"} <= options
    argument = next(each for each in ABOUT_GROUPS[name].params if each.name == "group_ids")
    assert (argument.nargs, argument.required) == (-1, False)


@pytest.mark.parametrize("name", sorted(ABOUT_GROUPS))
def test_what_changes_something_can_only_show_it(name: str) -> None:
    options = {opt for each in ABOUT_GROUPS[name].params for opt in each.opts}
    if "--execute" in options or name in OF_ONE_GROUP:
        assert "--dry-run" in options


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_MANY)
def test_a_group_that_is_named_and_all_groups_exclude_each_other(
    offsetd: Callable[..., Ended], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    required = AT_ONCE.get(name, ())
    ended = offsetd(*name.split(), "billing", "--all-groups", *required)
    assert ended.code == 2
    assert "name groups, or say --all-groups: not both" in " ".join(capsys.readouterr().err.split())


def server_of(fake_server: Any, *group_ids: str) -> None:
    """It has these groups, and answers any change with nothing special."""

    def answer(request: Any) -> Any:
        name = type(request).DESCRIPTOR.name
        if name == "ListGroupsRequest":
            listed = [
                group_service_pb2.GroupListing(group_id=each, state="GROUP_STATE_EMPTY")
                for each in group_ids
            ]
            return group_service_pb2.ListGroupsResponse(groups=listed)
        if name == "DeleteGroupRequest":
            return group_service_pb2.DeleteGroupResponse(offset_count=1)
        if name == "DeleteOffsetsRequest":
            answered = offset_service_pb2.DeleteOffsetsResponse()
            answered.deleted.add(topic="orders", partition=0)
            return answered
        if name == "RemoveMembersRequest":
            removal = group_service_pb2.RemoveMembersResponse()
            removal.members.add(member_id="m-1")
            return removal
        return getattr(group_service_pb2, name.replace("Request", "Response"))()

    fake_server.answer_each = answer


@pytest.mark.parametrize("command", [("list",), ("delete", "--all-groups", "--dry-run")])
def test_groups_that_cannot_be_listed_are_told_and_the_command_ends_with_3(
    fake_server: Any, offsetd: Callable[..., Ended], command: tuple[str, ...]
) -> None:
    server_of(fake_server, "a")
    answer = fake_server.answer_each

    def damaged(request: Any) -> Any:
        answered = answer(request)
        if isinstance(answered, group_service_pb2.ListGroupsResponse):
            answered.unreachable_log_partitions.extend([2, 7])
        return answered

    fake_server.answer_each = damaged
    ended = offsetd("groups", *command)
    assert ended.code == 3
    assert "a" in ended.stdout
    assert "the groups of damaged log partitions are left out: 2, 7" in ended.stderr


@pytest.mark.parametrize("name", AT_ONCE)
def test_all_groups_are_changed_only_when_it_is_said_twice(
    fake_server: Any, offsetd: Callable[..., Ended], name: str
) -> None:
    server_of(fake_server, "b", "a")
    shown = offsetd(*name.split(), "--all-groups", *AT_ONCE[name])
    assert shown.code == 0, shown.stderr
    _, *asked = fake_server.requests
    assert [(each.group_id, each.validate_only) for each in asked] == [("a", True), ("b", True)]
    told, line = shown.stderr.splitlines()
    assert told == "dry run: nothing was changed. This does it:"
    fake_server.requests.clear()
    done = offsetd(*line.split()[1:])
    assert (done.code, done.stderr) == (0, "")
    _, *asked = fake_server.requests
    assert [(each.group_id, each.validate_only) for each in asked] == [("a", False), ("b", False)]


@pytest.mark.parametrize("name", AT_ONCE)
def test_groups_that_are_named_are_changed_at_once(
    fake_server: Any, offsetd: Callable[..., Ended], name: str
) -> None:
    server_of(fake_server)
    ended = offsetd(*name.split(), "c", "--group", "b", "--group", "c", *AT_ONCE[name])
    assert (ended.code, ended.stderr) == (0, "")
    asked = [(each.group_id, each.validate_only) for each in fake_server.requests]
    assert asked == [("c", False), ("b", False)]


def test_offsets_of_many_groups_are_asked_for_in_parts(
    fake_server: Any, offsetd: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_choice, "FETCHED_GROUPS_MAX", 2)

    def answer(request: Any) -> Any:
        response = offset_service_pb2.FetchOffsetsResponse()
        for each in request.groups:
            response.groups.add(group_id=each.group_id).offsets.add(topic="orders", offset=1)
        return response

    fake_server.answer_each = answer
    ended = offsetd("fetch", "a", "b", "c", "-o", "csv")
    assert [line.split(",")[0] for line in ended.stdout.splitlines()[1:]] == ["a", "b", "c"]
    assert [len(each.groups) for each in fake_server.requests] == [2, 1]

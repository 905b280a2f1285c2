"""Commands about several groups, or about all: what each prints, changes, and ends with."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest
from cli_sessions import Printed, Shell
from interop.served_groups import serving_groups
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = [TopicPartition("orders", partition) for partition in range(3)]
CLICKS = TopicPartition("clicks", 0)
ALL = ["archive", "audit", "billing", "readers"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("groups")
    with serving_groups(folder / "data") as server:
        with OffsetClient(server.address) as client:  # A lease would be in the way of changes.
            lease = client.acquire_group("archive", "host-1")
            client.release_group("archive", lease.epoch)
        yield Shell(folder=folder, environment={"OFFSETD_ADDRESS": server.address})


@pytest.fixture
def shell(served: Shell) -> Shell:
    """`billing` and `audit` are as here before each test."""
    with OffsetClient(served.environment["OFFSETD_ADDRESS"]) as client:
        offsets = {
            where: OffsetToCommit(10 * where.partition, end_offset=end)
            for where, end in zip(ORDERS, (5, 40, None), strict=True)
        }
        for group_id in ("billing", "audit"):
            client.delete_offsets(group_id, topics=["orders", "clicks"])
            client.commit(group_id, offsets)
        client.commit("audit", {CLICKS: 1})
    return served


def rows(printed: Printed, *columns: str) -> list[tuple[str, ...]]:
    assert printed.code == 0, printed.stderr
    return [
        tuple(row[each] for each in columns) for row in csv.DictReader(printed.stdout.split("\n"))
    ]


def offsets_of(shell: Shell, group_id: str) -> list[tuple[str, ...]]:
    return rows(shell.piped(f"offsetd fetch {group_id} -o csv"), "topic", "partition", "offset")


@pytest.mark.parametrize(
    "line",
    ["offsetd fetch --all-groups", "offsetd groups describe --all-groups", "offsetd groups list"],
)
def test_all_groups_are_told(shell: Shell, line: str) -> None:
    assert sorted({*rows(shell.piped(f"{line} -o csv"), "group")}) == [(each,) for each in ALL]


@pytest.mark.parametrize("command", ["fetch", "groups describe"])
def test_a_topic_and_partitions_narrow_what_is_told(shell: Shell, command: str) -> None:
    line = f"offsetd {command} audit --group billing --topic orders:0,2 --topic clicks -o csv"
    told = rows(shell.piped(line), "group", "topic", "partition")
    assert told == [
        ("audit", "clicks", "0"),
        ("audit", "orders", "0"),
        ("audit", "orders", "2"),
        ("billing", "orders", "0"),
        ("billing", "orders", "2"),
    ]


def test_the_total_lag_is_that_of_what_is_told(shell: Shell) -> None:
    printed = shell.piped("offsetd groups describe billing --topic orders:0,1")
    assert printed.stderr == "group billing: empty, no active members; total lag 35\n"


def test_a_topic_that_a_group_does_not_have_is_told(shell: Shell) -> None:
    for command in ("fetch", "groups describe"):
        printed = shell.piped(f"offsetd {command} billing --topic ordres")
        assert printed.code == 0
        assert "group billing has no offset of ordres\n" in printed.stderr


def test_rows_are_sorted_by_lag_over_all_groups(shell: Shell) -> None:
    line = "offsetd groups describe --all-groups --topic orders --sort -lag --sort group -o csv"
    told = rows(shell.piped(line), "group", "partition", "lag")
    assert told[:4] == [
        ("audit", "1", "30"),
        ("billing", "1", "30"),
        ("audit", "0", "5"),
        ("billing", "0", "5"),
    ]
    assert {lag for _, _, lag in told[4:]} == {""}


def test_members_are_those_that_read_the_topic(shell: Shell) -> None:
    line = "offsetd groups describe --all-groups --members -o csv --topic"
    assert rows(shell.piped(f"{line} orders"), "group") == [("readers",)]
    assert rows(shell.piped(f"{line} orders:1"), "group") == [("readers",)]
    assert rows(shell.piped(f"{line} clicks"), "group") == []


def test_groups_are_listed_by_a_topic_that_they_have_offsets_of(shell: Shell) -> None:
    line = "offsetd groups list -o csv --topic"
    assert rows(shell.piped(f"{line} clicks"), "group") == [("audit",)]
    assert rows(shell.piped(f"{line} orders:2 --sort -group"), "group") == [
        ("billing",),
        ("audit",),
    ]


def test_history_tells_of_one_group_after_the_other(shell: Shell) -> None:
    line = "offsetd groups history billing --group audit --topic orders:1 --limit 1 -o csv"
    told = rows(shell.piped(line), "group", "topic", "partition", "offset")
    assert told == [("billing", "orders", "1", "10"), ("audit", "orders", "1", "10")]
    of_all = rows(shell.piped("offsetd groups history --all-groups --limit 1 -o csv"), "group")
    assert of_all == [(each,) for each in ALL]


def test_several_groups_are_restored_to_a_time(shell: Shell) -> None:
    [(time,)] = rows(
        shell.piped("offsetd groups history billing --limit 1 -o csv --topic orders:2"), "time"
    )
    for group_id in ("billing", "audit"):
        assert shell.piped(f"offsetd commit {group_id} orders:0=77").code == 0
    line = f"offsetd groups restore billing audit --to-datetime {time}"
    shown = shell.piped(line)
    assert (shown.code, shown.stdout.count("77")) == (0, 2)
    assert "This does it:" in shown.stderr
    assert offsets_of(shell, "billing")[0] == ("orders", "0", "77")
    done = shell.piped(f"{line} nobody --execute -o csv")
    assert done.code == 3
    assert "error: group nobody: GROUP_ID_NOT_FOUND" in done.stderr
    for group_id in ("billing", "audit"):
        assert ("orders", "0", "0") in offsets_of(shell, group_id)


def test_a_revision_is_of_one_group(shell: Shell) -> None:
    for which in ("billing audit", "--all-groups"):
        refused = shell.piped(f"offsetd groups restore {which} --to-revision 3")
        assert refused.code == 2
        assert "--to-revision is for one group" in refused.stderr


def test_several_groups_are_moved_as_rpk_does(shell: Shell) -> None:
    line = "offsetd groups seek billing audit --to start --topic orders:1 --bounds orders:1=3..40"
    told = rows(shell.piped(f"{line} --execute -o csv"), "group", "new_offset")
    assert told == [("billing", "3"), ("audit", "3")]


def test_several_groups_are_exported(shell: Shell) -> None:
    for which, groups in (
        ("billing --group audit", {"billing", "audit"}),
        ("--all-groups", {*ALL}),
        ("", {*ALL}),
    ):
        printed = shell.piped(f"offsetd groups export {which}")
        assert {json.loads(line)["group"] for line in printed.stdout.splitlines()} == groups


def test_offsets_of_all_groups_are_deleted_once_it_is_executed(shell: Shell) -> None:
    line = "offsetd groups offset-delete --topic clicks --all-groups"
    shown = shell.piped(line)
    assert (shown.code, shown.stdout.count("audit")) == (0, 1)
    assert shown.stderr == f"dry run: nothing was changed. This does it:\n  {line} --execute\n"
    assert len(offsets_of(shell, "audit")) == 4
    assert rows(shell.piped(f"{line} --execute -o csv"), "group") == [("audit",)]
    assert len(offsets_of(shell, "audit")) == 3


def test_several_groups_are_deleted_and_each_outcome_is_told(shell: Shell) -> None:
    assert shell.piped("offsetd groups clone billing spare").code == 0
    deleted = shell.piped("offsetd groups delete spare nobody --group readers -o csv")
    assert deleted.code == 3
    assert deleted.stdout.splitlines()[1].startswith("spare,3,")
    first, second = deleted.stderr.splitlines()
    assert first.startswith("error: group nobody: GROUP_ID_NOT_FOUND: ")
    assert second.startswith("group readers: NON_EMPTY_GROUP: ")


def test_a_member_is_removed_from_whichever_group_it_is_in(shell: Shell) -> None:
    line = "offsetd groups remove-members --all-groups --instance"
    shown = shell.piped(f"{line} host-1 -o csv")
    assert rows(shown, "group", "instance_id", "removed") == [("readers", "host-1", "false")]
    absent = shell.piped(f"{line} host-2")
    assert (absent.code, absent.stderr) == (1, "error: no group has such a member\n")


def test_groups_are_listed_by_the_holder_of_their_lease(shell: Shell) -> None:
    with OffsetClient(shell.environment["OFFSETD_ADDRESS"]) as client:
        lease = client.acquire_group("archive", "host-9")
        try:
            line = "offsetd groups list -o csv --owner"
            assert rows(shell.piped(f"{line} host-9"), "group") == [("archive",)]
            assert rows(shell.piped(f"{line} host-9 --topic clicks"), "group") == []
            assert rows(shell.piped(f"{line} host"), "group") == []
        finally:
            client.release_group("archive", lease.epoch)
    assert rows(shell.piped(f"{line} host-9"), "group") == []

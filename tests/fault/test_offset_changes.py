"""Resets, clones and files over real connections: the command line, refusals, a killed server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from offsetd_clients import (
    Bounds,
    GroupNotEmpty,
    LeaseHeld,
    OffsetClient,
    OffsetFormat,
    OffsetToCommit,
    ResetTo,
    ShiftBy,
    ToOffset,
    TopicPartition,
)
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_COMMAND = "from offsetd_clients.cli.main import main; main()"
ORDERS = {
    TopicPartition("orders", 0): OffsetToCommit(100, end_offset=200),
    TopicPartition("orders", 1): OffsetToCommit(50, leader_epoch=3, metadata="früh"),
}


@attrs.frozen
class Ended:
    code: int
    stdout: str
    stderr: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {
        "offsets.topic.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "history.ms": 0,
    }
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", settings=settings) as process:
        yield process.wait_until_serving()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(server.address) as client:
        yield client


@pytest.fixture
def offsetd(server: ServerProcess, tmp_path: Path) -> Callable[..., Ended]:
    def call(*arguments: str, stdin: bytes = b"") -> Ended:
        ended = subprocess.run(
            [sys.executable, "-c", _COMMAND, *arguments],
            env={**os.environ, "OFFSETD_ADDRESS": server.address},
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    return call


def stored(client: OffsetClient, group_id: str) -> dict[str, int]:
    return {str(each): offset.offset for each, offset in client.fetch(group_id).items()}


def test_a_reset_is_shown_first_and_done_when_told(
    client: OffsetClient, offsetd: Callable[..., Ended]
) -> None:
    client.commit("r1", ORDERS)
    shown = offsetd("groups", "reset", "r1", "--shift-by", "-10", "--all-topics", "-o", "jsonl")
    assert shown.code == 0
    assert "--execute" in shown.stderr
    expected = [("orders", 0, 100, 90), ("orders", 1, 50, 40)]
    names = ("topic", "partition", "offset", "new_offset")
    assert [tuple(row[name] for name in names) for row in shown.rows] == expected
    assert stored(client, "r1") == {"orders:0": 100, "orders:1": 50}
    done = offsetd(
        *("groups", "reset", "r1", "--shift-by", "-10", "--topic", "orders:1"),
        *("--execute", "--reason", "poison", "-o", "jsonl"),
    )
    assert [row["new_offset"] for row in done.rows] == [40]
    assert stored(client, "r1") == {"orders:0": 100, "orders:1": 40}
    [event] = client.list_audit_events(group_id="r1")
    assert (event.method, event.reason) == ("ResetOffsets", "poison")
    audit = offsetd("admin", "audit", "--group", "r1", "-o", "jsonl")
    assert audit.rows[0]["what"]["changes"] == {"orders": {"1": [50, 40]}}
    partly = offsetd(
        "groups", "reset", "r1", "none", "--to-offset", "7", "--topic", "orders", "--execute"
    )
    assert partly.code == 3
    assert "GROUP_ID_NOT_FOUND" in partly.stderr
    assert stored(client, "r1") == {"orders:0": 7, "orders:1": 7}


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--all-topics"], 2, "give exactly one target"),
        (["--to-latest", "--to-current", "--all-topics"], 2, "give exactly one target"),
        (["--to-latest"], 2, "--all-topics or --from-file"),
        (["--to-datetime", "yesterday", "--all-topics"], 2, "not a time"),
        (["--by-duration", "P", "--all-topics"], 2, "not a duration"),
        (["--to-latest", "--all-topics", "--bounds", "orders"], 2, "FIRST..END"),
        (["--to-earliest", "--all-topics"], 1, "OFFSET_BOUNDS_UNKNOWN"),
        (["--to-offset", "201", "--topic", "orders:0"], 1, "latest 200"),
        (
            ["--to-offset", "7", "--topic", "orders:1", "--bounds", "orders:1=8..60"],
            1,
            "orders:1: offset 7, earliest 8 (--bounds), latest 60 (--bounds)",
        ),
        (["--shift-by", "1", "--topic", "orders:9"], 1, "OFFSET_NOT_COMMITTED"),
        (["--by-duration", "1h", "--all-topics"], 1, "had no such offsets at that time"),
        (
            ["--by-duration", "1h", "--topic", "orders:9"],
            1,
            "group 'r2' had no offset of a partition at that time",
        ),
    ],
)
def test_a_reset_that_cannot_be_says_why(
    client: OffsetClient,
    offsetd: Callable[..., Ended],
    arguments: list[str],
    code: int,
    told: str,
) -> None:
    client.commit("r2", ORDERS)
    ended = offsetd("groups", "reset", "r2", "--execute", *arguments)
    assert (ended.code, ended.stdout) == (code, "")
    assert told in ended.stderr
    assert stored(client, "r2") == {"orders:0": 100, "orders:1": 50}


def test_all_groups_that_have_a_topic_are_reset_and_the_others_left(
    client: OffsetClient, offsetd: Callable[..., Ended]
) -> None:
    client.commit("a1", {TopicPartition("apart", 0): 5, TopicPartition("more", 0): 6})
    client.commit("a2", {TopicPartition("apart", 0): 7})
    client.commit("a3", {TopicPartition("other", 0): 8})
    line = ("groups", "reset", "--all-groups", "--to-offset", "1", "-o", "jsonl", "--topic")
    done = offsetd(*line, "apart")
    assert (done.code, [row["group"] for row in done.rows]) == (0, ["a1", "a2"])
    done = offsetd(*line, "apart", "--topic", "more")
    assert (done.code, [row["topic"] for row in done.rows]) == (0, ["apart", "more", "apart"])
    ended = offsetd(*line, "nowhere")
    assert (ended.code, ended.stdout) == (1, "")
    assert ended.stderr == "error: no group has an offset of nowhere\n"
    named = offsetd("groups", "reset", "a3", "--to-offset", "1", "--topic", "apart")
    assert (named.code, "OFFSET_NOT_COMMITTED" in named.stderr) == (1, True)
    line = ("groups", "reset", "--all-groups", "--by-duration", "1h", "--topic", "apart")
    assert offsetd(*line).code == 1  # They have it, and had no offset then.


def test_a_group_with_members_is_reset_by_force_alone(client: OffsetClient) -> None:
    client.commit("r3", ORDERS)
    client.join_group("r3", {"range": b""})
    line = b'{"group":"r3","topic":"t","partition":0,"offset":1}\n'
    with pytest.raises(GroupNotEmpty):
        client.reset_offsets("r3", ToOffset(1))
    with pytest.raises(GroupNotEmpty):
        client.clone_group(other_group(client), "r3", overwrite=True)
    [imported] = client.import_offsets(line, OffsetFormat.JSONL)
    assert isinstance(imported.error, GroupNotEmpty)
    assert stored(client, "r3") == {"orders:0": 100, "orders:1": 50}
    client.reset_offsets("r3", ToOffset(1), force=True)
    assert stored(client, "r3") == {"orders:0": 1, "orders:1": 1}


def other_group(client: OffsetClient) -> str:
    client.commit("other", ORDERS)
    return "other"


def test_a_group_whose_lease_is_held_is_reset_by_force_alone(client: OffsetClient) -> None:
    client.commit("r4", ORDERS)
    client.acquire_group("r4", "writer")
    with pytest.raises(LeaseHeld):
        client.reset_offsets("r4", ToOffset(1))
    with pytest.raises(LeaseHeld):
        client.clone_group(other_group(client), "r4", overwrite=True)
    assert stored(client, "r4") == {"orders:0": 100, "orders:1": 50}
    client.reset_offsets("r4", ToOffset(1), force=True)
    assert stored(client, "r4") == {"orders:0": 1, "orders:1": 1}


def test_targets_of_every_kind_go_over_the_wire(client: OffsetClient) -> None:
    bounds = {each: Bounds(10, 200) for each in ORDERS}
    for target, expected in [
        (ToOffset(11), [11, 11]),
        (ShiftBy(-1), [99, 49]),
        (ResetTo.EARLIEST, [10, 10]),
        (ResetTo.LATEST, [200, 200]),
        (ResetTo.CURRENT, [100, 50]),
        ({TopicPartition("orders", 1): 12}, [12]),
    ]:
        client.commit("r5", ORDERS)
        answer = client.reset_offsets("r5", target, bounds=bounds, validate_only=True)
        assert [change.after for change in answer.changes] == expected
        assert answer.revision is None
    with pytest.raises(TypeError):
        client.reset_offsets("r5", 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file_format", "group"), [("csv", "x1"), ("rpk", "x2"), ("kafka-utils", "x3"), ("jsonl", "x4")]
)
def test_a_file_goes_out_and_comes_back(
    client: OffsetClient,
    offsetd: Callable[..., Ended],
    tmp_path: Path,
    file_format: str,
    group: str,
) -> None:
    client.commit(group, ORDERS)
    exported = offsetd("groups", "export", group, "--format", file_format, "--file", "out")
    assert (exported.code, exported.stdout) == (0, "")
    printed = offsetd("groups", "export", group, "--format", file_format)
    assert printed.stdout.encode() == (tmp_path / "out").read_bytes()
    before = client.fetch(group)
    client.delete_group(group)
    named = () if file_format in ("kafka-utils", "jsonl") else ("--group", group)
    imported = offsetd(
        *("groups", "import", "-", "--format", file_format, *named, "-o", "jsonl"),
        stdin=(tmp_path / "out").read_bytes(),
    )
    assert imported.code == 0, imported
    assert [(row["group"], row["offsets"]) for row in imported.rows] == [(group, 2)]
    after = client.fetch(group)
    assert {each: offset.offset for each, offset in after.items()} == {
        each: offset.offset for each, offset in before.items()
    }
    if file_format == "jsonl":
        [second] = [offset for each, offset in after.items() if each.partition == 1]
        assert (second.metadata, second.leader_epoch) == ("früh", 3)


def test_a_file_with_a_wrong_line_is_not_imported(
    client: OffsetClient, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "bad.csv").write_text("bad,t,0,1\nnone\n")
    ended = offsetd("groups", "import", "bad.csv")
    assert ended.code == 2
    assert "INVALID_IMPORT" in ended.stderr
    assert "line 2" in ended.stderr
    assert client.fetch("bad") == {}


@pytest.mark.single_server
def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": 4}
    with ServerProcess(tmp_path / "data", settings=settings) as process:
        process.wait_until_serving()
        with OffsetClient(process.address) as client:
            client.commit("g", ORDERS)
            first = client.reset_offsets("g", ShiftBy(-10), request_id="r")
            client.clone_group("g", "h")
            client.import_offsets(b"i,t,0,1\n", OffsetFormat.KAFKA_CSV)
        process.kill()
    with ServerProcess(tmp_path / "data", settings=settings) as process:
        process.wait_until_serving()
        with OffsetClient(process.address) as client:
            assert stored(client, "g") == stored(client, "h") == {"orders:0": 90, "orders:1": 40}
            assert stored(client, "i") == {"t:0": 1}
            # The same request again is answered, also by a server that did not hear the first.
            assert client.reset_offsets("g", ShiftBy(-10), request_id="r") == first
            methods = [event.method for event in client.list_audit_events()]
            assert methods == ["ImportOffsets", "CloneGroup", "ResetOffsets"]

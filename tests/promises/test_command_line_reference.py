"""What the reference of the command line promises of exit codes and streams, on a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from promises.conftest import Told

promised = promised_by("docs/reference/command-line.md")

P0: Final = TopicPartition("orders", 0)
# `{0}` is a group that is there, `{1}` one that is not, `{2}` one whose lease is held.
EXIT_CODES: Final = (
    ("fetch {0}", 0),
    ("fetch {1}", 1),
    ("fetch {0} {1}", 3),
    ("groups describe {0}", 0),
    ("groups describe {1}", 1),
    ("groups describe {0} {1}", 3),
    ("groups describe {1} --members", 1),
    ("groups describe {0} {1} --state", 3),
    ("groups update {1} --retention 90d", 1),
    ("groups update {0} {1} --retention 90d", 3),
    ("groups update {0} --retention soon", 2),
    ("groups reset {1} --all-topics --to-offset 1", 1),
    ("groups reset {0} {1} --all-topics --to-offset 1", 3),
    ("groups offset-delete {1} --topic orders", 1),
    ("groups offset-delete {0} --topic no-such-topic", 0),
    ("groups offset-delete {0} {1} --topic orders --dry-run", 3),
    ("groups offset-delete {2} --topic orders", 1),
    ("groups delete {1}", 1),
    ("groups delete {1} --topic orders", 1),
    ("groups delete {0} {1} --dry-run", 3),
    ("groups delete {0} {1} --topic orders --dry-run", 3),
    ("groups delete {2}", 1),
    ("groups remove-members {1} --all", 1),
    ("groups remove-members {0} --member nobody", 1),
    ("groups clone {1} {1}-copy", 1),
    ("groups clone {0} {2}", 1),
    ("groups clone {0} {0}-copy", 0),
    ("groups seek {1} --to start", 1),
    ("groups seek {0} --to soon", 2),
    ("groups restore {1} --to-revision 0", 1),
    ("groups restore {0} --to-revision x", 2),
    ("groups restore {0}", 2),
    ("groups export {1}", 1),
    ("groups export {0} -o json", 2),
    ("groups history {1}", 1),
    ("groups history {0} {1}", 3),
    ("groups list", 0),
    ("groups list --state no-such-state", 2),
    ("commit {2} orders:0=1", 1),
    ("commit {0} orders:0", 2),
    ("commit {0} orders:0=-1", 2),
    ("commit {0} orders:0=0 --monotonic", 1),
    ("admin status", 0),
    ("admin config no.such.setting", 2),
    ("admin config offsets.retention.minutes=soon", 2),
    ("admin clean --partition 999999", 2),
    ("admin retry --partition 999999", 2),
    ("admin audit --limit 1", 0),
    ("admin no-such-command", 2),
    ("groups list --no-such-option", 2),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as process:
        yield process.wait_until_serving()


@pytest.fixture
def named(client: OffsetClient, group: str) -> tuple[str, str, str]:
    there, absent, held = f"{group}-there", f"{group}-absent", f"{group}-held"
    client.commit(there, {P0: 5})
    lease = client.acquire_group(held, "host-1")
    client.commit(held, {P0: 5}, epoch=lease.epoch)
    return there, absent, held


@promised(
    "Results go to standard output, and nothing else does: notes, errors and progress go to "
    "standard error.",
    "failed: nothing was done, and standard error says why, with the reason's name",
    "wrong use: an argument that is none, or what the server calls invalid",
    "the others are named on standard error",
)
@pytest.mark.parametrize(("line", "code"), EXIT_CODES)
def test_exit_codes(
    offsetd: Callable[[str], Told],
    named: tuple[str, str, str],
    capsys: pytest.CaptureFixture[str],
    line: str,
    code: int,
) -> None:
    ended = offsetd(line.format(*named))
    assert ended.code == code, ended
    if code in (1, 2):
        # A member that could not be removed has a row that says why.
        assert ended.stdout == "" or "remove-members" in line
        assert ended.stderr + capsys.readouterr().err != ""
    if code == 3:
        assert named[1] in ended.stderr
        assert named[1] not in ended.stdout


@promised(
    "`watch`, `groups list`, `admin audit` | the server does not answer, or refuses",
)
@pytest.mark.parametrize(
    "line",
    [
        "fetch g",
        "commit g t:0=1",
        "watch g",
        "groups list",
        "groups describe g",
        "admin status",
        "groups history g",
        "admin audit",
        "groups reset g --all-topics --to-offset 1 --execute",
        "groups export g",
        "admin config",
        "groups restore g --to-revision 1",
    ],
)
def test_a_server_that_does_not_answer_is_a_failure(
    offsetd: Callable[[str], Told], line: str
) -> None:
    ended = offsetd(
        f"{line} --address 127.0.0.1:1" + ("" if line.startswith("watch") else " --timeout 0.5")
    )
    assert (ended.code, ended.stdout) == (1, ""), ended
    assert "127.0.0.1:1" in ended.stderr


@promised(
    "a command's own option wins, then that before the command, then the variable.".capitalize(),
    "The option may stand before the command, too",
    "`--bootstrap-server` is another name of it",
)
def test_which_address_counts(server: ServerProcess, offsetd: Callable[[str], Told]) -> None:
    nowhere = "127.0.0.1:1"
    for option in ("--address", "--bootstrap-server"):
        assert offsetd(f"{option} {nowhere} groups list {option} {server.address}").code == 0
        assert offsetd(f"{option} {nowhere} groups list --timeout 0.5").code == 1
        assert offsetd(f"{option} {server.address} groups list").code == 0


@promised(
    "the file exists, or cannot be written", "A file that exists is replaced only with `--force`."
)
def test_an_export_replaces_nothing_unless_it_is_told_to(
    client: OffsetClient, offsetd: Callable[[str], Told], group: str, tmp_path: Path
) -> None:
    client.commit(group, {P0: 5})
    file = tmp_path / "offsets.jsonl"
    file.write_text("mine")
    refused = offsetd(f"groups export {group} --file {file}")
    assert (refused.code, file.read_text()) == (1, "mine")
    assert offsetd(f"groups export {group} --file {tmp_path / 'none' / 'x.jsonl'}").code == 1
    assert offsetd(f"groups export {group} --file {file} --force").code == 0
    assert json.loads(file.read_text().splitlines()[0])["group"] == group
    assert [each.name for each in tmp_path.iterdir()] == ["offsets.jsonl"]


@promised(
    "`--state` takes a state in any case, with or without its hyphens: `stable`, `Empty`, "
    "`PreparingRebalance`."
)
@pytest.mark.parametrize("state", ["empty", "EMPTY", "Empty"])
def test_a_state_is_taken_in_any_case(
    client: OffsetClient, offsetd: Callable[[str], Told], group: str, state: str
) -> None:
    client.commit(group, {P0: 5})
    listed = offsetd(f"groups list --state {state} -o jsonl").rows
    assert group in {row["group"] for row in listed}
    for other in ("PreparingRebalance", "preparing-rebalance", "stable"):
        told = offsetd(f"groups list --state {other} -o jsonl")
        assert (told.code, told.rows) == (0, []), told


@promised(
    "`groups import` | no group of the file could be imported | some groups could not be imported"
)
def test_an_import_names_groups_that_could_not_be(
    offsetd: Callable[[str], Told], named: tuple[str, str, str], tmp_path: Path
) -> None:
    there, absent, held = named
    file = tmp_path / "offsets.csv"
    file.write_text(f"{held},orders,0,9\n{absent},orders,0,9\n")
    partly = offsetd(f"groups import {file} -o jsonl")
    assert (partly.code, held in partly.stderr) == (3, True), partly
    assert {row["group"]: row["problem"] is None for row in partly.rows} == {
        held: False,
        absent: True,
    }
    file.write_text(f"{held},orders,0,9\n")
    assert offsetd(f"groups import {file}").code == 1
    file.write_text(f"{there},orders,0,9\nthis is no line\n")
    refused = offsetd(f"groups import {file}")
    assert refused.code in (1, 2)
    [row] = offsetd(f"fetch {there} -o jsonl").rows
    assert row["offset"] == 5


@promised(
    "Offsets of the file replace the stored offsets, even newer ones.",
    "Standard error says how many others were replaced",
)
def test_an_import_shows_and_says_what_it_replaces(
    client: OffsetClient, offsetd: Callable[[str], Told], group: str, tmp_path: Path
) -> None:
    second, third = TopicPartition("orders", 1), TopicPartition("orders", 2)
    client.commit(group, {P0: 100, second: 7})
    file = tmp_path / "offsets.jsonl"
    assert offsetd(f"groups export {group} --file {file}").code == 0
    client.commit(group, {P0: 500, third: 1})
    client.delete_offsets(group, [second])
    shown = offsetd(f"groups import {file} --dry-run -o csv")
    assert shown.stdout.splitlines() == [
        "group,topic,partition,offset,new_offset,revision",
        f"{group},orders,0,500,100,",
        f"{group},orders,1,,7,",
    ]
    assert shown.stderr == (
        "2 offsets: 1 back, by 400 in all; 1 new\ndry run: nothing was changed\n"
    )
    assert client.fetch(group)[P0].offset == 500
    done = offsetd(f"groups import {file}")
    assert done.code == 0
    assert "1 of 2 offsets replaced others" in done.stderr
    assert {where: each.offset for where, each in client.fetch(group).items()} == {
        P0: 100,
        second: 7,
        third: 1,
    }
    # What is there already is not replaced by the same.
    assert "replaced" not in offsetd(f"groups import {file}").stderr


def test_a_dry_import_of_many_offsets_shows_ten_thousand(
    client: OffsetClient, offsetd: Callable[[str], Told], group: str, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    client.commit(group, {TopicPartition("orders", 10_001): 3})
    file.write_text("".join(f"orders,{each},5\n" for each in range(10_002)))
    shown = offsetd(f"groups import {file} --group {group} --dry-run -o jsonl")
    assert [row["partition"] for row in shown.rows] == list(range(10_000))
    assert "2 more are not shown; 1 of all would replace other offsets" in shown.stderr


@promised(
    "`offsetd serve` prints nothing to standard output, except with `--web` the line of "
    "`offsetd web`; its log goes to standard error, a JSON "
    "object a line"
)
def test_a_server_prints_nothing_but_its_log(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.wait_until_serving()
        server.stop_well()
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""
        for line in server.lines:
            assert isinstance(json.loads(line), dict), line


def test_an_update_that_makes_no_group_says_so(offsetd: Callable[[str], Told], group: str) -> None:
    line = f"groups update {group} --retention default --allow-missing"
    for words in (line, f"{line} --dry-run"):
        told = offsetd(words)
        assert (told.code, f"{group}: there is no such group, and none is made" in told.stderr) == (
            0,
            True,
        )
    assert offsetd(f"groups update {group} --retention 9d --allow-missing").stderr == ""
    assert offsetd(line).stderr == ""


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("kafka run plan --overwrite equal", "'equal' is none of behind, ahead, conflict"),
        ("zookeeper run plan --overwrite missing", "'missing' is none of behind"),
        ("zookeeper plan --layout kafka09", "there is no layout 'kafka09'"),
        ("zookeeper plan --layout regex", "regex"),
    ],
)
def test_what_a_migration_does_not_know_is_wrong_use(
    offsetd: Callable[[str], Told], capsys: pytest.CaptureFixture[str], words: str, wrong: str
) -> None:
    told = offsetd(f"migrate {words}")
    assert told.code == 2, told
    assert wrong in told.stderr + capsys.readouterr().err

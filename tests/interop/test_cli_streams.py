"""Commands with a terminal, without one, with a reader that leaves, and with a key pressed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import attrs
import pytest
from cli_sessions import Shell
from interop.served_groups import serving_groups
from offsetd_clients import OffsetClient, OffsetFormat, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long(minutes=1)

COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-7]m")
WHERE = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("streams")
    with serving_groups(folder / "data") as server:
        yield Shell(folder=folder, environment={"OFFSETD_ADDRESS": server.address})


@pytest.fixture
def client(shell: Shell) -> Iterator[OffsetClient]:
    with OffsetClient(shell.environment["OFFSETD_ADDRESS"]) as client:
        client.commit("billing", {WHERE: 42})
        yield client


@pytest.mark.parametrize(
    "line",
    [
        "offsetd fetch billing",
        "offsetd fetch billing -o json",
        "offsetd fetch billing -o jsonl",
        "offsetd groups list -o csv",
        "offsetd groups describe readers",
        "offsetd groups history billing",
        "offsetd groups export billing",
        "offsetd groups reset billing --all-topics --shift-by 1 --export",
        "offsetd admin status",
        "offsetd admin config",
        "offsetd admin audit",
        "offsetd log describe --data-dir data",
        "offsetd log dump --data-dir data",
        "offsetd serve --list-settings",
        "offsetd watch --from oldest",
        "offsetd watch --from oldest -o json",
        "offsetd groups --help",
        "offsetd --version",
    ],
)
def test_a_reader_that_is_gone_is_no_error(shell: Shell, client: OffsetClient, line: str) -> None:
    ended = shell.unread(line)
    assert ended.code == (1 if line.endswith("--help") else 0)  # Click's own way.
    for word in ("Traceback", "Exception", "Broken", "error"):
        assert word not in ended.stderr


@pytest.mark.parametrize("output", ["table", "json", "jsonl", "csv"])
def test_a_watch_of_which_nothing_comes_ends_when_its_reader_leaves(
    shell: Shell, output: str
) -> None:
    with shell.started(["watch", "nobody", "-o", output]) as running:
        running.stop_reading()
        ended = running.ended()
    told = "there is no group nobody yet: waiting for its commits\n"
    assert (ended.code, ended.stderr) == (0, told)


@pytest.mark.parametrize("output", ["table", "jsonl", "csv", "json"])
def test_an_event_is_printed_when_it_comes(shell: Shell, client: OffsetClient, output: str) -> None:
    with shell.started(["watch", "billing", "--from", "oldest", "-o", output]) as running:
        running.wait_for(lambda: b"orders" in running.stdout)
        client.commit("billing", {WHERE: 4242})
        running.wait_for(lambda: b"4242" in running.stdout)


def test_a_key_ends_a_watch_which_says_where_to_go_on(shell: Shell, client: OffsetClient) -> None:
    with shell.started_on_a_terminal(["watch", "billing", "--from", "oldest"]) as running:
        running.wait_for(lambda: b"orders:0" in running.stdout)
        running.type(b"\x03")
        ended = running.ended()
    assert ended.code == 0
    [token] = re.findall(r"go on with: --from (\S+)", ended.stdout)
    client.commit("billing", {WHERE: 77})
    with shell.started_on_a_terminal(["watch", "billing", "--from", token, "-o", "json"]) as more:
        more.wait_for(lambda: b"}" in more.stdout)
        more.type(b"\x03")
        text = more.ended().stdout.replace("^C", "")
    events = json.loads(text[text.index("[") : text.rindex("]") + 1])
    assert [event["offset"] for event in events] == [77]


def test_without_a_terminal_nothing_is_coloured_or_drawn(
    shell: Shell, client: OffsetClient
) -> None:
    for line in ("offsetd groups describe billing nobody", "offsetd groups list", "offsetd --help"):
        ended = shell.piped(line)
        assert "\x1b" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("variable", "value", "pattern"),
    [("NO_COLOR", "1", COLOUR), ("TERM", "dumb", re.compile("\x1b"))],
)
def test_a_terminal_without_colours_gets_none(
    shell: Shell, client: OffsetClient, variable: str, value: str, pattern: re.Pattern[str]
) -> None:
    line = "offsetd groups describe billing nobody"
    coloured = shell.on_a_terminal(line)
    assert COLOUR.search(coloured.stdout)
    plain = attrs.evolve(shell, environment={**shell.environment, variable: value})
    shown = plain.on_a_terminal(line)
    assert shown.code == coloured.code == 3
    assert not pattern.search(shown.stdout)
    assert "error: group nobody" in re.sub(r"\x1b\[[0-9;]*m", "", shown.stdout)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("offsetd admin clean --dry-run", "cleaning"),
        ("offsetd groups export --file offsets.jsonl --force", "exporting"),
        ("offsetd groups import offsets.jsonl --dry-run", "importing"),
    ],
)
def test_progress_is_drawn_on_a_terminal_and_nowhere_else(
    shell: Shell, client: OffsetClient, line: str, shown: str
) -> None:
    (shell.folder / "offsets.jsonl").write_bytes(
        b"".join(client.export_offsets(OffsetFormat.JSONL, ["billing"]))
    )
    piped = shell.piped(line)
    assert (piped.code, shown in piped.stdout + piped.stderr) == (0, False)
    assert shown in shell.on_a_terminal(line).stdout


COMPLETED = [
    ("offsetd gro", ["groups"]),
    ("offsetd groups de", ["describe", "delete"]),
    ("offsetd fetch re", ["readers"]),
    ("offsetd groups describe archive re", ["readers"]),
    ("offsetd groups reset --group arc", ["archive"]),
    ("offsetd groups clone arc", ["archive"]),
    ("offsetd groups list --state sta", ["stable"]),
    ("offsetd fetch nobody-has-this", []),
]


def complete(shell: Shell, line: str, **environment: str) -> list[str]:
    completing = {
        "_OFFSETD_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    variables = {**shell.environment, **completing, **environment}
    ended = attrs.evolve(shell, environment=variables).piped("offsetd")
    assert (ended.code, ended.stderr) == (0, "")
    return ended.stdout.split()


@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_the_shell_completes_commands_and_groups(
    shell: Shell, line: str, expected: list[str]
) -> None:
    assert sorted(complete(shell, line)) == sorted(expected)


def test_completion_asks_the_server_that_the_line_names(shell: Shell) -> None:
    address = shell.environment["OFFSETD_ADDRESS"]
    line = f"offsetd fetch --address {address} re"
    assert complete(shell, line, OFFSETD_ADDRESS="127.0.0.1:1") == ["readers"]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no such address", "host.invalid:7171"])
def test_without_a_server_nothing_is_completed_and_nothing_said(shell: Shell, address: str) -> None:
    assert complete(shell, "offsetd fetch re", OFFSETD_ADDRESS=address) == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_is_shown_for_each_shell(shell: Shell, name: str) -> None:
    variables = {**shell.environment, "_OFFSETD_COMPLETE": f"source_{name}"}
    ended = attrs.evolve(shell, environment=variables).piped("offsetd")
    assert (ended.code, ended.stderr) == (0, "")
    assert "_OFFSETD_COMPLETE" in ended.stdout

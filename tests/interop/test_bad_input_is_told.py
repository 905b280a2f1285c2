"""What is wrong with an argument, an option or a file is told in words that a person can read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import Ended, calls_of, offsetd_of
from cli_tree import commands
from interop.served_groups import serving_groups
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_clients.cli.application import OFFSETD, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LONG = "n" * 70_000
# They never end, change a server's folder for long, or have no arguments.
# Those of `web` are in tests/web.
NOT_CALLED = ("watch", "kernels warm", "serve", "web", "migrate zookeeper mirror")
COMMANDS = {" ".join(words): command for words, command in commands()}
# What each command needs to get as far as it can; a new one begins with nothing.
NEEDED = {
    "admin health": ("offsetd.disk",),
    "backup list": ("backups",),
    "backup verify": ("backups",),
    "admin retry": ("9",),
    "admin clean": ("--dry-run",),
    "admin delete-records": ("orders:0", "--before", "1", "--dry-run"),
    "cluster init": ("--from-data-dir", "no-folder"),
    "cluster export": ("--data-dir", "."),
    "commit": ("billing", "orders:0=1", "--dry-run"),
    "fetch": ("billing",),
    "groups describe": ("billing",),
    "groups delete": ("billing", "--dry-run"),
    "groups update": ("billing", "--retention", "90d", "--dry-run"),
    "groups remove-members": ("billing", "--all", "--dry-run"),
    "groups reset": ("billing", "--all-topics", "--to-current"),
    "groups seek": ("billing", "--to-group", "billing"),
    "groups offset-delete": ("billing", "--topic", "orders", "--dry-run"),
    "groups clone": ("billing", "copy", "--dry-run"),
    "groups history": ("billing",),
    "groups restore": ("billing", "--to-revision", "1"),
    "groups import": ("offsets.csv", "--group", "imported", "--dry-run"),
    "groups export": ("billing",),
    "log recreate": ("--topic", "__consumer_offsets"),
    "migrate kafka plan": ("--file", "new.jsonl", "--folder", "a-folder"),
    "migrate zookeeper plan": ("--file", "new.jsonl", "--from-file", "empty"),
}
BAD_FILES: dict[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(128, 256)),
    "broken.json": b'{"a": [1,\n',
    "broken.csv": b'group,topic\n"x',
    "broken.jsonl": b"group;topic\n",
    "wrong.jsonl": b"[1, 2, 3]\n",
    "broken.toml": b"x = [\n",
}
BAD_TEXTS = {
    "long": LONG,
    "control": "a\x1b[31m\nb\x07",
    "nothing": "",
    "huge": "9" * 400,
    "signs": "::=:([",
    "bytes": "\udcff",
}
FILES = ("FILE", "DIR", "PLAN", "FOLDER")
# Options that many commands of `migrate` have alike are tried with one of them.
TRIED_FOR_ALL = ("migrate kafka diff", "migrate zookeeper diff")
ALIKE = ("--bootstrap-servers", "--command-config", "--kafka-timeout", "--hosts", "--auth", "--ca")
ALIKE += ("--certificate", "--key", "--session-timeout", "--state-root", "--reason")
# Beside what is no text of ours: things that come from the libraries below.
LEAKS = re.compile(
    r"Traceback|\[Errno|Value error|<list|set\[|Attribute\(|pydantic|cattrs|object at 0x|<class"
    r"|PosixPath|Exception|NoneType|codec can't|(Decode|Key|Type|Value)Error|Expecting value"
    r"|surrogates|Input should|literal for|unexpected keyword|n{1500}|[\x00-\x09\x0b-\x1f\x7f]"
    r"|(?<![\d.,:])\b1 (rows|files|groups|offsets|members|partitions|lines|records|problems)\b"
)
# The line that a dry run says is to be pasted, and whole.
PASTED = re.compile(r"^  offsetd .*$", re.MULTILINE)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_groups(tmp_path_factory.mktemp("told") / "data") as server:
        with OffsetClient(server.address) as client:
            client.commit("billing", {TopicPartition("orders", 0): 1})
        yield server.address


@pytest.fixture
def offsetd(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "offsets.csv").write_text("orders,0,5\n")
    for name, content in BAD_FILES.items():
        (tmp_path / name).write_bytes(content)
    return offsetd_of(address, monkeypatch)


def bad_values(parameter: Any) -> tuple[str, ...]:
    is_file = any(name in str(parameter.metavar) for name in FILES)
    files = ("no-such-file.csv", "a-folder", "empty/x", *BAD_FILES) if is_file else ()
    return (*BAD_TEXTS.values(), *files)


def bad_calls(name: str) -> Iterator[list[str]]:
    """Each argument and option of a command with each bad value, all else as it is needed."""
    needed = list(NEEDED.get(name, ("broken.jsonl",) if name.startswith("migrate") else ()))
    is_migration = name.startswith("migrate") and name not in TRIED_FOR_ALL
    for parameter in COMMANDS[name].params:
        flag = parameter.opts[0]
        if parameter.param_type_name == "argument":
            if parameter.name == "group_ids" or not needed:
                continue  # Commands with groups take `--group`, too.
            named = [each for each in COMMANDS[name].params if each.param_type_name == "argument"]
            place = named.index(parameter)
            for value in bad_values(parameter):
                yield [*needed[len(named) :], "--", *needed[:place], value]
        elif not parameter.is_flag and parameter.name not in ("address", "timeout", "output"):
            if is_migration and flag in ALIKE:
                continue
            rest = needed.copy()
            if flag in rest:
                at = rest.index(flag)
                del rest[at : at + 2]
            for value in bad_values(parameter):
                yield [*rest, f"{flag}={value}"]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {*NOT_CALLED}))
def test_no_library_speaks_to_a_person(
    offsetd: Callable[..., Ended], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    is_asking = any(each.name == "timeout" for each in COMMANDS[name].params)
    limit = ["--timeout", "5"] if is_asking else []
    told = 0
    for call in bad_calls(name):
        ended = offsetd(*name.split(), *limit, *call)
        text = PASTED.sub("", ended.stderr + capsys.readouterr().err)
        shown = [each[:60] for each in call]
        assert not (found := LEAKS.search(text)), (shown, found, text[:1000])
        assert ended.code in (0, 1, 2, 3), shown
        told += bool(text)
    assert told or name in ("admin clean", "groups list", "version"), "nothing was wrong for this"


@pytest.mark.parametrize("value", [*BAD_TEXTS.values(), "a-folder", "missing.toml", *BAD_FILES])
@pytest.mark.parametrize("option", ["--config", "--set", "--listen"])
def test_a_server_says_what_is_wrong_with_its_options(
    offsetd: Callable[..., Ended],
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
) -> None:
    refused = ("--set", "no.such.setting=1")  # So that it never serves.
    ended = offsetd("serve", option, value, *refused)
    text = ended.stderr + capsys.readouterr().err
    assert ended.code == 2
    assert not LEAKS.search(text), text[:1000]


def test_a_file_that_is_not_there_is_told_in_the_words_of_the_system(
    offsetd: Callable[..., Ended],
) -> None:
    ended = offsetd("migrate", "zookeeper", "diff", "empty/x")
    assert ended == Ended(1, "", "error: Not a directory: empty/x\n")


def test_a_long_name_is_cut_and_its_length_is_told(offsetd: Callable[..., Ended]) -> None:
    ended = offsetd("fetch", LONG[:30_000])
    assert ended.code == 1
    assert f"group {'n' * 100}… (30,000 characters)" in ended.stderr
    assert len(ended.stderr) < 600


def test_a_name_does_not_begin_a_line_of_its_own(offsetd: Callable[..., Ended]) -> None:
    for command in (("fetch",), ("groups", "describe"), ("groups", "delete")):
        ended = offsetd(*command, "a\nerror: b")
        assert (ended.code, ended.stderr.count("\n")) == (1, 1), ended.stderr


def test_the_pipeline_says_what_is_wrong_with_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    application = pytest.importorskip("offsetd_pipeline.jobs.application")
    jobs: Program = application.JOBS
    assert jobs is not OFFSETD
    monkeypatch.chdir(tmp_path)
    job = calls_of(jobs, monkeypatch)
    for name in jobs.commands:
        for arguments in (["--no-such-option"], [], ["-o", LONG]):
            ended = job(name, *arguments)
            text = ended.stderr + capsys.readouterr().err
            assert ended.code in (1, 2), (name, arguments[:1], text[:300])
            assert not (found := LEAKS.search(text)), (name, found, text[:1000])

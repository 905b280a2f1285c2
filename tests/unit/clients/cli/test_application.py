"""offsetd_clients.cli.application: what every command has alike."""

import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from cli_tree import commands
from offsetd_clients.cli.application import application
from offsetd_clients.cli.printing.terminal import Terminal

# Of click, which typer may have within itself.
WRONG_USE: Any = typer.BadParameter.__base__
COMMANDS = {" ".join(path): command for path, command in commands()}


def examples(command: Any) -> Iterator[str]:
    """The lines below the help, without what they are piped to."""
    head, _, text = inspect.cleandoc(command.epilog or "").partition("Examples:\n")
    assert head.strip("\b\n") == ""
    for line in text.splitlines():
        yield line.strip()


HELP_COLUMNS = 80


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_examples_fit_a_terminal_of_80_columns(name: str) -> None:
    indented = (inspect.cleandoc(COMMANDS[name].epilog or "")).splitlines()
    assert [line for line in indented if len(line) + 2 > HELP_COLUMNS] == []


def calls_in(line: str) -> Iterator[list[str]]:
    """The arguments of each `offsetd` in a line for a shell, its comment left out."""
    words = shlex.shlex(line, posix=True, punctuation_chars="|>")
    words.whitespace_split = True
    call: list[str] = []
    for word in [*words, "|"]:
        if word not in ("|", ">"):
            call.append(word)
            continue
        if call and call[0] == "offsetd":
            yield call[1:]
        call = []


def parse(arguments: list[str]) -> Any:
    """The context in which a command would run. Fails for what is wrong use."""
    command: Any = typer.main.get_command(application(Terminal(sys.stdout, sys.stderr)))
    context = command.make_context("offsetd", arguments.copy())
    while hasattr(command, "resolve_command"):
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.make_context(name, arguments.copy(), parent=context)
    return context


def test_there_are_commands() -> None:
    assert {"serve", "fetch", "groups reset", "admin status", "log describe"} < COMMANDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_every_command_has_examples_that_parse(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = list(examples(COMMANDS[name]))
    assert lines
    for line in lines:
        calls = list(calls_in(line))
        assert calls, line
        assert any(" ".join(call).startswith(name) for call in calls), line
        for call in calls:
            for word in call:  # Some are files that have to be there.
                if re.fullmatch(r"[\w.]+", word):
                    Path(word).touch()
            parse(call)


def test_the_first_help_has_examples_that_parse() -> None:
    root: Any = typer.main.get_command(application(Terminal(sys.stdout, sys.stderr)))
    lines = list(examples(root))
    assert lines
    for line in lines:
        for call in calls_in(line):
            parse(call)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_of_every_command_is_explained(name: str) -> None:
    for parameter in COMMANDS[name].params:
        assert parameter.help or parameter.name == "help", parameter.name


@pytest.mark.parametrize(
    "line",
    [
        "offsetd groups list --no-such-option",
        "offsetd no-such-command",
        "offsetd groups list | offsetd commit billing",
        "offsetd admin audit --limit 0",
    ],
)
def test_an_example_that_does_not_parse_would_be_found(line: str) -> None:
    *_, call = calls_in(line)
    with pytest.raises(WRONG_USE):
        parse(call)

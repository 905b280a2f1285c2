"""What the help of every command says of its options and arguments."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from cli_tree import commands

COMMANDS = dict(commands())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_shows_every_default_and_no_type_of_python(words: tuple[str, ...]) -> None:
    command: Any = COMMANDS[words]
    context = typer.Context(command, info_name=" ".join(words))
    told = command.get_help(context)
    assert "list[" not in told
    assert "<str>" not in told
    for parameter in command.params:
        default = parameter.get_default(context)
        if parameter.param_type_name != "option" or parameter.is_flag or not default:
            continue
        assert "default: " in " ".join(parameter.get_help_record(context)), parameter.opts

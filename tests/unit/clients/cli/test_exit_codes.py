"""The table of exit codes in docs/reference/command-line.md, and the codes of wrong use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cli_calls import offsetd_of
from cli_tree import commands

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "command-line.md").read_text("utf-8")
ALL = [" ".join(words) for words, _ in commands()]


def named_in(lines: Iterable[str]) -> list[str]:
    return [name for line in lines for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


def test_every_command_has_its_row() -> None:
    table = PAGE.split("| commands | 1 | 3 |")[1].split("\n\n")[0]
    assert sorted(named_in(table.splitlines()[2:])) == sorted(ALL)


@pytest.mark.parametrize("command", ALL)
def test_wrong_use_is_2(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    offsetd = offsetd_of("127.0.0.1:1", monkeypatch)
    assert offsetd(*command.split(), "--no-such-option").code == 2

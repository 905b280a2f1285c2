"""No command breaks a word, or prints a row that is wider than the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs
import pytest
from interop.test_documented_fields import RUNS, shell

if TYPE_CHECKING:
    from cli_sessions import Shell

__all__ = ["shell"]

STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
# Its lines are no table; what is revoked is gone the next time.
NOT_HERE = ("offsetd watch", "offsetd admin tokens revoke")
# A restore is done once: its folder is not empty for the second run.
LINES = [
    line
    for command, line in RUNS.items()
    if command not in NOT_HERE and "--data-dir restored" not in line
] + [
    "offsetd admin status",
    "offsetd admin status --partitions",
    "offsetd admin config",
    "offsetd fetch --all-groups --topic orders --sort -commit-time",
    "offsetd groups list --topic orders --sort -state",
    "offsetd groups describe --all-groups --topic orders:0,1 --sort -lag",
    "offsetd groups describe --all-groups --members --sort partitions",
    "offsetd groups history --all-groups --limit 2",
    "offsetd groups restore billing trial --to-datetime 2026-01-01",
    "offsetd groups seek --all-groups --to-group trial --force",
    "offsetd groups delete --all-groups --topic orders",
    "offsetd groups offset-delete --all-groups --topic orders",
    "offsetd groups remove-members --all-groups --instance host-1",
    "offsetd groups update --all-groups --retention 90d",
]


HINT = "not shown: (--wide shows all)"


def words(text: str) -> set[str]:
    """Without what differs from run to run: each digit of an id or a number is a 0."""
    return set(re.split(r"[\s,:{}\[\]\"]+", re.sub(r"[0-9a-f]+", "0", text)))


@pytest.mark.parametrize("line", LINES)
def test_a_narrow_terminal_gets_whole_words(shell: Shell, line: str) -> None:
    piped = shell.piped(line)
    notes = words(piped.stderr) | words(f"{HINT} --wide")
    for columns, wide in ((60, ""), (80, ""), (60, " --wide")):
        drawn = attrs.evolve(shell, columns=columns).on_a_terminal(f"{line}{wide}")
        assert drawn.code == piped.code
        # What a progress bar has drawn is gone when the rows come.
        shown = STYLE.sub("", re.sub(r".*\r(\x1b\[2K|\x1b\[0?K)?", "", drawn.stdout))
        shown = "\n".join(each for each in shown.splitlines() if "━" not in each)
        for printed in shown.splitlines():
            is_one_word = len(printed.split()) <= 2
            assert len(printed) <= columns or is_one_word or words(printed) <= notes, printed
        if len(piped.stdout.splitlines()) > 1 and line != "offsetd admin status":
            assert words(shown) - words(piped.stdout) - notes <= {"-"}


def test_a_pipe_and_other_formats_get_all_partitions(shell: Shell) -> None:
    assert shell.piped("offsetd admin status -o csv").stdout.count("\n") == 51
    assert shell.piped("offsetd admin status").stdout.count("\n") == 51
    drawn = STYLE.sub("", shell.on_a_terminal("offsetd admin status").stdout).splitlines()
    assert drawn[:2] == ["server: serving", "cleaner: serving"]
    assert len(drawn) == 5
    listed = STYLE.sub("", shell.on_a_terminal("offsetd admin status --partitions").stdout)
    assert len(re.findall(r"^ +\d+  ", listed, re.MULTILINE)) == 50

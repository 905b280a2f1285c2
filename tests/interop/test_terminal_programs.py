"""What the command line prints, kept word for word in tests/golden/cli.

Each file is a transcript: `$ offsetd …` and what it printed. `2>` is before lines of stderr, `\\e`
stands for escape. OFFSETD_WRITE_GOLDEN=1 writes the files anew: look at the difference, then.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cli_sessions import Printed, Shell
from interop.served_groups import serving_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interop.served_folder import ServedFolder

pytestmark = pytest.mark.long(minutes=1)

GOLDEN = Path(__file__).parents[1] / "golden" / "cli"
COLUMNS = 200

# What differs from run to run, and what stands for it, as wide.
VARYING = (
    (r"(?<=offsetd )\d+\.\d+\.\d+", lambda found: "V" * len(found[0])),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?(Z|\+00:00)", lambda found: "T" * len(found[0])),
    (r"\b[0-9a-f]{32}\b", lambda found: "ID" * 16),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", lambda found: "ID" * 18),
    (r"127\.0\.0\.1:\d{5}\b", lambda found: "127.0.0.1:PORTS"),
    (r"(?<=--from )[\w-]{80,}", lambda found: "TOKEN"),
    (r"(?<=_timestamp_ms\":)\d+", lambda found: "MS"),
    (r"(?<=CreateTime: )\d+|(?<=commitTimestamp\":)\d+", lambda found: "MS"),
    (r"(?<=crc: )\d+", lambda found: "CRC"),
    (r" *(?<![\d.])\d+\.\d{1,3}(?![\d.])", lambda found: "S.SSS".rjust(len(found[0]))),
    (r"\x1b", lambda found: r"\e"),
)


def normalised(text: str) -> str:
    for pattern, stand_in in VARYING:
        text = re.sub(pattern, stand_in, text)
    return text


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServedFolder]:
    with serving_groups(tmp_path / "data") as server:
        yield server


def through_a_shell(shell: Shell, line: str) -> Printed:
    """A line with a pipe or a redirection, by the command that is installed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-c", line],
        cwd=shell.folder,
        env={**os.environ, **shell.environment, "PATH": path},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    return Printed(ended.returncode, ended.stdout, ended.stderr)


def transcribed(line: str, printed: Printed) -> str:
    lines = printed.stdout.splitlines()
    lines += [f"2> {each}".rstrip() for each in printed.stderr.splitlines()]
    if printed.code:
        lines.append(f"exit {printed.code}")
    return f"$ {line}\n" + normalised("".join(f"{each}\n" for each in lines))


def check_transcript(name: str, run: Callable[[str], Printed]) -> None:
    """Runs the commands of a file, in order; what is printed must be what the file has."""
    path = GOLDEN / f"{name}.txt"
    expected = path.read_text("utf-8")
    lines = [line[2:] for line in expected.splitlines() if line.startswith("$ ")]
    assert lines
    found = "\n".join(transcribed(line, run(line)) for line in lines)
    if os.environ.get("OFFSETD_WRITE_GOLDEN"):
        path.write_text(found, "utf-8")
    else:
        assert found == expected


def test_through_pipes_it_prints_what_is_on_record(server: ServedFolder, tmp_path: Path) -> None:
    shell = Shell(folder=tmp_path, environment={"OFFSETD_ADDRESS": server.address})

    def run(line: str) -> Printed:
        if "|" in line or ">" in line:
            return through_a_shell(shell, line)
        return shell.piped(line)

    check_transcript("pipe", run)
    server.stop()
    check_transcript("offline", run)


def test_on_a_terminal_it_shows_what_is_on_record(server: ServedFolder, tmp_path: Path) -> None:
    environment = {"OFFSETD_ADDRESS": server.address}
    shell = Shell(folder=tmp_path, environment=environment, columns=COLUMNS)
    check_transcript("terminal", shell.on_a_terminal)

"""Runs the commands and programs of README and of guides, word for word and in order.

README and the pages that continue it run against one fresh server, and so does each of the other
guides. The server is started as README says, in a tree that is set up already. A block of `text`
is what the block before it prints.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pytest
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from offsetd.v1 import offset_service_pb2
from private_network import private_network
from server_process import START_SECONDS_MAX, poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.long(minutes=1)

ROOT: Final = Path(__file__).parents[2]
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
PORTS: Final = (7171, 9464)
STEP_SECONDS_MAX: Final = 120

# What is not run, by how it begins, and why.
EXCLUDED: Final = {
    "make test": "it is what runs this",
    "grpcurl ": "a program of others, which the page only points to",
}
# Pages whose steps continue those of README, in this order, and against the same server.
CONTINUATIONS: Final = ("docs/guides/groups-and-leases.md", "docs/guides/operating.md")
LANGUAGES_PAGE: Final = "docs/guides/other-languages.md"
PAGES: Final = ("README.md", *CONTINUATIONS, LANGUAGES_PAGE)
NOT_RUN: Final = ("", "text", "mermaid")
# Guides that are run by themselves, and how many steps they have at the least.
GUIDES: Final = {"resetting-a-group-safely": 5, "python-client": 2, "first-consumer": 6}
# They go on until they are told to end, by Ctrl-C.
ENDLESS: Final = ("make serve", ".venv/bin/offsetd watch", ".venv/bin/python docs/examples/")


@attrs.frozen
class Block:
    """A block of a page, with the output that the page shows for it, if any."""

    language: str
    text: str
    printed: str | None

    def commands(self) -> list[str]:
        """The lines for a shell, those that go on in the next one joined."""
        return [line for line in self.text.replace("\\\n", " ").splitlines() if line.strip()]


def blocks(page: str = "README.md") -> list[Block]:
    """The programs and commands of a page, in order."""
    found = BLOCK.findall((ROOT / page).read_text("utf-8"))
    following = [*found[1:], ("", "")]
    return [
        Block(language, text, after[1] if after[0] == "text" else None)
        for (language, text), after in zip(found, following, strict=True)
        if language not in NOT_RUN
    ]


class Reader:
    """Follows a page: in a tree of its own, with a server that a command of README started."""

    def __init__(self, folder: Path, wrapper: Sequence[str]) -> None:
        self._folder = folder
        self._wrapper = wrapper
        self._left: list[subprocess.Popen[str]] = []
        # Neither what is set for offsetd nor what `make test` was told.
        apart = ("OFFSETD_", "MAKE", "MFLAGS", "ARGS")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(apart)}
        path = f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}"
        self._environment = {**inherited, "PATH": path}

    def follow(self, block: Block) -> str:
        """Does what a block says; returns what it prints."""
        if block.language == "python":
            return self._run([".venv/bin/python", "-c", block.text])
        assert block.language == "sh", block
        return "".join(map(self._follow_line, block.commands()))

    def _follow_line(self, line: str) -> str:
        if line.startswith(tuple(EXCLUDED)):
            return ""
        if line.startswith(ENDLESS):
            return self._run_for_a_while(line)
        return self._run(["sh", "-c", line])

    def _run(self, command: list[str]) -> str:
        ended = subprocess.run(
            [*self._wrapper, *command],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=STEP_SECONDS_MAX,
        )
        assert ended.returncode == 0, f"{command[-1]}\n{ended.stdout}"
        return ended.stdout

    def _run_for_a_while(self, line: str) -> str:
        """A server until the end of the test; another one until it has printed something."""
        is_server = line.startswith("make serve")
        process = subprocess.Popen(
            [*self._wrapper, *shlex.split(line, comments=True)],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        self._left.append(process)
        lines: list[str] = []
        reading = threading.Thread(target=_read_lines, args=(process, lines), daemon=True)
        reading.start()
        awaited = '"event": "serving"' if is_server else "\n"
        poll(lambda: awaited in "".join(lines) or not reading.is_alive(), START_SECONDS_MAX, lines)
        assert awaited in "".join(lines), "".join(lines)
        if not is_server:
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(STEP_SECONDS_MAX) == 0, "".join(lines)
        return ""

    def leave(self) -> None:
        """Ends what still runs."""
        for process in self._left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read_lines(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stdout is not None
    with process.stdout:
        lines.extend(iter(process.stdout.readline, ""))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The tree as it is once it is set up, apart from this one: what is written stays in it."""
    tree = tmp_path / "offsetd"
    environment = tree / ".venv"
    environment.mkdir(parents=True)
    for each in ROOT.iterdir():
        if not each.name.startswith(".venv") and each.name not in (".git", "offsetd-data"):
            (tree / each.name).symlink_to(each)
    for each in Path(sys.prefix).iterdir():
        if each.name not in (".server", ".test"):
            (environment / each.name).symlink_to(each)
    (environment / ".server").touch()  # As `make` leaves it when it has set up.
    return tree


@pytest.fixture
def reader(tree: Path) -> Iterator[Reader]:
    with private_network(*PORTS) as wrapper:
        reader = Reader(tree, wrapper)
        try:
            yield reader
        finally:
            reader.leave()


def test_readmes_steps_work_word_for_word_and_print_what_it_says(reader: Reader) -> None:
    steps = [block for page in ("README.md", *CONTINUATIONS) for block in blocks(page)]
    assert len(steps) >= 9
    follow(reader, steps)


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guides_steps_work_word_for_word_and_print_what_it_says(
    reader: Reader, guide: str
) -> None:
    start, *_ = blocks()
    steps = blocks(f"docs/guides/{guide}.md")
    assert len(steps) >= GUIDES[guide]
    follow(reader, [start, *steps])


def follow(reader: Reader, steps: Sequence[Block]) -> None:
    for block in steps:
        printed = reader.follow(block)
        if block.printed is not None:
            assert normalised(printed) == normalised(block.printed), block.text


def test_what_grpcurl_is_told_is_in_the_contract() -> None:
    commands = [line for block in blocks(LANGUAGES_PAGE) for line in block.commands()]
    lines = [line for line in commands if line.startswith("grpcurl ")]
    assert len(lines) == 2
    for line in lines:
        *_, text, address, method = shlex.split(line)
        service, _, name = method.rpartition("/")
        assert address == "127.0.0.1:7171"
        described = offset_service_pb2.DESCRIPTOR.services_by_name[
            service.rpartition(".")[2]
        ].methods_by_name[name]
        request = json_format.Parse(text, GetMessageClass(described.input_type)())
        assert request.ByteSize() > 0


def normalised(text: str) -> str:
    return TIME.sub("TIME", text)


def test_readme_and_what_continues_it_have_no_block_that_no_test_looks_at() -> None:
    texts = [(ROOT / page).read_text("utf-8") for page in PAGES]
    languages = {language for text in texts for language, _ in BLOCK.findall(text)}
    assert languages <= {*NOT_RUN, "sh", "python"}
    assert [block.printed is not None for block in blocks()].count(True) >= 2
    steps = [block for page in PAGES for block in blocks(page) if block.language == "sh"]
    lines = [line for block in steps for line in block.commands()]
    for start in EXCLUDED:
        assert any(line.startswith(start) for line in lines), f"{start} is no longer on a page"

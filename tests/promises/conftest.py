"""What the tests of pages' promises share; each module has its own `server`."""

from __future__ import annotations

import itertools
import json
import shlex
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from cli_calls import offsetd_of
from offsetd_clients import OffsetClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from server_process import ServerProcess

_numbers = itertools.count(1)


@attrs.frozen
class Told:
    """What a command printed, and how it ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """With `-o jsonl`."""
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    with OffsetClient(server.address) as client:
        yield client


@pytest.fixture
def offsetd(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Told]:
    """Calls `offsetd` with the words of a text."""
    call = offsetd_of(server.address, monkeypatch)

    def offsetd(line: str) -> Told:
        ended = call(*shlex.split(line))
        return Told(ended.code, ended.stdout, ended.stderr)

    return offsetd


@pytest.fixture
def group() -> str:
    """A name that no other test of the module has."""
    return f"billing-{next(_numbers)}"

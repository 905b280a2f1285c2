"""The clients alone, without the server's packages, on other Pythons and the oldest libraries.

A virtual environment for each is made in the cache folder, once; pip has to reach its index then.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long(minutes=1)

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "protos", ROOT / "clients"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEWEST = tuple(PROJECT["dependencies"])
OLDEST = tuple(each.replace(">=", "==") for each in NEWEST)
PROGRAM = """
import asyncio, sys
import google.protobuf
from offsetd_clients import AsyncOffsetClient, OffsetClient, OffsetConflict, OffsetToCommit
from offsetd_clients import RetryPolicy, TopicPartition

where, address = TopicPartition("orders", 0), sys.argv[1]
retry = RetryPolicy(timeout_s=60)

def check(client):
    with client:
        group = f"threads {sys.version} {google.protobuf.__version__}"
        client.commit(group, {where: 42})
        client.commit_soon(group, {where: 43}).result()
        try:
            client.commit(group, {where: OffsetToCommit(1, expected_offset=7)})
        except OffsetConflict as error:
            assert error.conflicts[0].offset == 43, error
        assert client.fetch(group)[where].offset == 43
        assert client.get_server_info().state == "serving"

async def check_async(client):
    async with client:
        group = f"asyncio {sys.version} {google.protobuf.__version__}"
        await client.commit(group, {where: 42})
        await (await client.commit_soon(group, {where: 43}))
        assert (await client.fetch(group))[where].offset == 43
        assert group in [each.group_id async for each in client.list_groups()]

check(OffsetClient(address, retry=retry))
asyncio.run(check_async(AsyncOffsetClient(address, retry=retry)))
print(google.protobuf.__version__)
"""


VERSIONS = [
    each.rpartition(" ")[2]
    for each in reversed(PROJECT["classifiers"])
    if each.startswith("Programming Language :: Python :: 3.")
]
ANY = "the newest of them here"


def interpreter(version: str) -> str:
    """A Python of a version. Skips the test where there is none."""
    wanted = VERSIONS if version == ANY else [version]
    found = next(filter(None, map(_interpreter, wanted)), None)
    if found is None and version != ANY:
        pytest.skip(f"there is no Python {version} here")
    return found or sys.executable


def _interpreter(version: str) -> str | None:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        command = [str(candidate), "-c", "import venv"]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return str(candidate)
    return None


COMBINATIONS = [(ANY, True)]
if os.environ.get("OFFSETD_NIGHTLY"):
    COMBINATIONS = [(version, oldest) for version in VERSIONS for oldest in (True, False)]


@functools.cache
def environment(python: str, requirements: tuple[str, ...]) -> Path:
    """The Python of an environment that has these packages and no others."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offsetd"
    name = hashlib.sha256(repr((python, requirements)).encode()).hexdigest()[:16]
    made = cache / f"clients-{name}"
    if not made.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            subprocess.run([python, "-m", "venv", folder], check=True, capture_output=True)
            pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", *requirements]
            installed = subprocess.run(pip, check=False, capture_output=True, text=True)
            if installed.returncode:
                pytest.skip(f"pip cannot install {requirements}: {installed.stderr[-500:]}")
            Path(folder).rename(made)
            Path(folder).mkdir()  # For its owner to remove.
    return made / "bin" / "python"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server.wait_until_serving()


@pytest.mark.parametrize(("version", "oldest"), COMBINATIONS)
def test_a_client_commits_and_fetches_with_these_versions(
    server: ServerProcess, version: str, oldest: bool
) -> None:
    at = environment(interpreter(version), OLDEST if oldest else NEWEST)
    ended = subprocess.run(
        [at, "-W", "error", "-c", PROGRAM, server.address],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    wanted = next(each for each in OLDEST if each.startswith("protobuf=="))
    assert not oldest or wanted == f"protobuf=={ended.stdout.strip()}"

"""Code of earlier releases beside today's: their clients, their servers, their folders.

Clients run always. Servers of earlier releases compile their kernels first: they run by night.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import acl_service_pb2
from promised import promised_by
from release_answers import RULE, SETTINGS, answers, commit, fill
from releases import BEFORE_0_2_0, COMMIT_OF_RELEASE, GOLDEN, ROOT, has_commit, unpack_release
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from collections.abc import Mapping

promised = promised_by("docs/upgrading.md")
OLDEST = COMMIT_OF_RELEASE["0.1.0"]
OLDER = {"0.1.0": OLDEST, "before 0.2.0": BEFORE_0_2_0}
CLIENT = Path(__file__).parent.parent / "older_client.py"
SECONDS_MAX = 240

pytestmark = [
    pytest.mark.slow,
    pytest.mark.single_server,
    pytest.mark.skipif(
        not all(map(has_commit, OLDER.values())), reason="this clone has no history"
    ),
]
nightly = pytest.mark.skipif(
    not os.environ.get("OFFSETD_NIGHTLY"), reason="takes minutes: by night (OFFSETD_NIGHTLY=1)"
)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Mapping[str, str]]:
    """The environment of each older version's code."""
    return {
        name: unpack_release(commit, tmp_path_factory.mktemp("code")).environment
        for name, commit in OLDER.items()
    }


def served(folder: Path, environment: Mapping[str, str] | None = None) -> ServerProcess:
    """A server on the folder, of today or of that environment."""
    server = ServerProcess(folder, settings=SETTINGS, environment=environment)
    return server.wait_until_serving()


def seen_by_client(address: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What `older_client.py` prints, run with the code of that environment."""
    ran = subprocess.run(
        [sys.executable, str(CLIENT), address],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    folders = environment.get("PYTHONPATH", str(ROOT)).split(os.pathsep)
    assert found.pop("code").startswith(tuple(folders))
    return found


EXPECTED = {
    "fetched": 1,
    "revisions rise": True,
    "conflict": "OFFSET_CONFLICT",
    "fenced": "EPOCH_FENCED",
    "groups": ["old", "old-leased", "old-members", "old-soon"],
    "history": 2,
    "exported": "orders,0,1\norders,1,2\n",
    "audited": ["UpdateConfig"],
    "generation": 1,
    "serving": True,
    "state": "SERVING",
}


@promised("everything that the client has")
@pytest.mark.parametrize("version", OLDER)
def test_a_client_of_an_older_version_works_with_a_server_of_today(
    version: str, older: dict[str, Mapping[str, str]], tmp_path: Path
) -> None:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with ServerProcess(tmp_path / "data", settings=settings).wait_until_serving() as server:
        assert seen_by_client(server.address, older[version]) == EXPECTED


@nightly
@promised("everything that the server has")
@pytest.mark.parametrize("version", OLDER)
def test_a_client_of_today_works_with_a_server_of_an_older_version(
    version: str, older: dict[str, Mapping[str, str]], tmp_path: Path
) -> None:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with ServerProcess(
        tmp_path / "data", settings=settings, environment=older[version]
    ).wait_until_serving() as server:
        assert seen_by_client(server.address, {}) == EXPECTED


@nightly
def test_the_version_before_0_2_0_takes_turns_with_todays(
    older: dict[str, Mapping[str, str]], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    with served(folder) as server:
        fill(Stubs(server.channel()))
        expected = answers(Stubs(server.channel()))
        server.stop_well()
    for environment in (older["before 0.2.0"], {}, older["before 0.2.0"]):
        with served(folder, environment) as server:
            assert answers(Stubs(server.channel())) == expected
            server.stop_well()


@nightly
@promised(
    "0.1.0 refuses the folder, because of the journal's format.",
    "Offsets, revisions, leases, members, settings and audit events are there.",
    "Later you can upgrade to 0.2.0 again",
)
def test_0_1_0_refuses_the_folder_of_todays_untouched_and_takes_it_after_the_steps(
    older: dict[str, Mapping[str, str]], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    with tarfile.open(GOLDEN / "offsetd-0.1.0/stopped.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    with served(folder) as server:
        Stubs(server.channel()).acls.AddAcls(acl_service_pb2.AddAclsRequest(acls=[RULE]))
        server.stop_well()
    before = hashes(folder)
    with ServerProcess(folder, settings=SETTINGS, environment=older["0.1.0"]) as server:
        assert server.wait_for_exit() == 1
        assert "the journal has format 3, this program knows 1" in server.log
    assert hashes(folder) == before
    go_back(folder)
    expected = json.loads((GOLDEN / "offsetd-0.1.0/stopped.json").read_text())
    for environment in (older["0.1.0"], {}):
        with served(folder, environment) as server:
            stubs = Stubs(server.channel())
            assert (
                json.loads(json.dumps(answers(stubs, rules=False)["groups"])) == expected["groups"]
            )
            stubs.offsets.CommitOffsets(commit("billing", {0: 42}))
            server.stop_well()
        expected["groups"] = reread(folder, environment)


def reread(folder: Path, environment: Mapping[str, str]) -> Any:
    """The groups as the same code answers about them after another start."""
    copied = folder.with_name("reread")
    shutil.copytree(folder, copied)
    with served(copied, environment) as server:
        groups = json.loads(json.dumps(answers(Stubs(server.channel()), rules=False)["groups"]))
    shutil.rmtree(copied)
    return groups


def go_back(folder: Path) -> None:
    """The steps of docs/upgrading.md for a version that does not know the journal's format."""
    aside = folder.with_name("aside")
    aside.mkdir()
    for pattern in ("offsetd.properties", "offsetd-journal-*", "offsetd-quarantine-*"):
        for path in folder.glob(pattern):
            shutil.move(path, aside)
    for path in folder.glob("*/offsetd.segments"):
        path.unlink()


def hashes(folder: Path) -> dict[str, str]:
    """The digest of each file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

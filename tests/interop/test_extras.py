"""Each extra alone, in a new environment, from the wheel: its commands do what they are for."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from chance import chosen

if TYPE_CHECKING:
    from collections.abc import Callable

    from interop.served_folder import ServedFolder

pytestmark = pytest.mark.long(minutes=5)

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "tests" / "golden" / "kafka-4.1.1" / "data"
NOWHERE: Final = "127.0.0.1:1"
JOBS: Final = ("archive", "audit", "checkpoint", "compare", "migrate", "restore")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", folder, ROOT], check=True, capture_output=True)
    (wheel,) = folder.glob("offsetd-*.whl")
    return wheel


class Environment:
    """A virtual environment with the wheel and one extra.

    The pip of the tests fills it, and compiles nothing: a module is compiled when it is imported.
    """

    def __init__(self, wheel: Path, extra: str, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=not extra)
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        pip = [sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet"]
        constraints = ROOT / ".ci" / "constraints.txt"
        wanted = f"{wheel}[{extra}]" if extra else wheel
        subprocess.run([*pip, "--no-compile", "-c", constraints, wanted], check=True)

    def ends(self, code: int, program: str, *arguments: str | Path) -> str:
        """What a program of the environment printed; fails unless it ends with `code`."""
        ended = subprocess.run(
            [str(self.bin / program), *map(str, arguments)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert ended.returncode == code, f"{arguments}: {ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr


@pytest.fixture
def environment(wheel: Path, tmp_path: Path) -> Callable[[str], Environment]:
    return lambda extra: Environment(wheel, extra, tmp_path)


def test_without_an_extra_there_is_the_client(
    environment: Callable[[str], Environment], serve: Callable[[Path], ServedFolder], tmp_path: Path
) -> None:
    bare = environment("")
    server = serve(tmp_path / "served")
    with server.running():
        program = (
            "from offsetd_clients import OffsetClient, TopicPartition\n"
            f"with OffsetClient({server.address!r}) as client:\n"
            "    client.commit('billing', {TopicPartition('orders', 0): 42})\n"
            "    print([each.offset for each in client.fetch('billing').values()])\n"
        )
        assert bare.ends(0, "python", "-c", program).strip() == "[42]"
    told = bare.ends(1, "offsetd", "fetch", "billing")
    assert "typer is not installed: " in told
    # What it says to type works.
    command = told.strip().partition(" is not installed: ")[2]
    subprocess.run(command, shell=True, check=True, cwd=bare.folder, capture_output=True)
    assert "fetch" in bare.ends(0, "offsetd", "--help")


@pytest.mark.parametrize("extra", chosen("extras", ["cli", "kafka", "zookeeper"], 2))
def test_an_extra_with_the_command_line_commits_and_migrates(
    environment: Callable[[str], Environment],
    serve: Callable[[Path], ServedFolder],
    tmp_path: Path,
    extra: str,
) -> None:
    made = environment(extra)
    server = serve(tmp_path / "served")
    with server.running():
        made.ends(0, "offsetd", "commit", "billing", "orders:0=42", "--address", server.address)
        told = made.ends(0, "offsetd", "groups", "describe", "billing", "--address", server.address)
        assert "42" in told
    plans = {
        "kafka": ("plan", "--bootstrap-servers", NOWHERE, "--file", "plan.jsonl"),
        "zookeeper": ("plan", "--hosts", NOWHERE, "--file", "plan.jsonl"),
    }
    for store, plan in plans.items():
        told = made.ends(1, "offsetd", "migrate", store, *plan)
        assert ("is not installed: " in told) == (store != extra), told
    assert "is not installed: " in made.ends(1, "offsetd", "serve")


def test_the_extra_web_shows_pages(
    environment: Callable[[str], Environment], serve: Callable[[Path], ServedFolder], tmp_path: Path
) -> None:
    made = environment("web")
    server = serve(tmp_path / "served")
    with server.running():
        made.ends(0, "offsetd", "commit", "billing", "orders:0=42", "--address", server.address)
        words = [made.bin / "offsetd", "web", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(
            [*words, "--address", server.address],
            cwd=made.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as pages:
            try:
                assert pages.stdout is not None
                url = pages.stdout.readline().partition(" ")[0]
                for path in ("/groups", "/static/web.css", "/static/vendor/htmx-LICENSE.txt"):
                    with urllib.request.urlopen(url + path, timeout=60) as answer:
                        text = answer.read().decode()
                        assert path != "/groups" or "billing" in text
            finally:
                pages.kill()
    login = ("--login=oidc", "--oidc-issuer=https://id.example", "--oidc-client-id=web")
    told = made.ends(1, "offsetd", "web", "--listen", "127.0.0.1:0", *login)
    assert "[oidc]" in told.partition(" is not installed: ")[2]


def test_without_its_extra_the_command_web_says_what_to_install(
    environment: Callable[[str], Environment],
) -> None:
    made = environment("cli")
    assert "--listen" in made.ends(0, "offsetd", "web", "--help")
    told = made.ends(1, "offsetd", "web", "--listen", "127.0.0.1:0")
    assert "[web]" in told.partition(" is not installed: ")[2]


def test_the_extra_server_serves_and_looks_at_folders(
    environment: Callable[[str], Environment],
) -> None:
    made = environment("server")
    assert "segment.bytes" in made.ends(0, "offsetd", "serve", "--list-settings")
    assert "CreateTime" in made.ends(
        0, "offsetd", "log", "dump", "--data-dir", GOLDEN, "--topic", "__consumer_offsets"
    )


@pytest.mark.spark
def test_the_extra_spark_runs_every_job(
    environment: Callable[[str], Environment],
    serve: Callable[[Path], ServedFolder],
    tmp_path: Path,
) -> None:
    made = environment("spark")
    job = ("-m", "offsetd_pipeline")
    for name in JOBS:
        assert "is not installed" not in made.ends(0, "python", *job, name, "--help")
    made.ends(0, "python", *job, "audit", GOLDEN, "--report", "audited")
    assert (tmp_path / "audited" / "report.html").exists()
    server = serve(tmp_path / "served")
    with server.running():
        moving = ("--to", server.address, "--state", "moving", "--execute")
        # A group of the folder had members when it was copied, and is refused.
        assert "1 group refused" in made.ends(3, "python", *job, "migrate", GOLDEN, *moving)

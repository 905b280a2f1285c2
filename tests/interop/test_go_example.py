"""A program in Go, of the .proto files alone: it is made, built and run where there is a Go."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from interop.requirements import no_go

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interop.served_folder import ServedFolder

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "docs" / "examples" / "go"
PROTOC_PYTHON: Final = ROOT / ".venv-protos" / "bin" / "python"
# Generous: where nothing is cached, modules are fetched and all of gRPC is compiled.
SECONDS_MAX: Final = 600
PRINTED: Final = [
    "committed orders:0 = 42, on disk at revision 0",
    "43 refused: OFFSET_CONFLICT",
    "fetched orders:0 = 42",
    "watched orders:0 = 42",
]


def call(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture
def environment() -> dict[str, str]:
    """Of what makes the Go code: Go, a compiler of .proto files, and google/rpc's."""
    go = shutil.which("go")
    if go is None:
        no_go("there is no go")
    if PROTOC_PYTHON.exists():
        protoc = f"{PROTOC_PYTHON} -m grpc_tools.protoc"
    elif (found := shutil.which("protoc")) is not None:
        protoc = found
    else:
        no_go("neither .venv-protos (make protos-check) nor protoc is there")
    downloaded = subprocess.run(
        [go, "mod", "download"], cwd=EXAMPLE, capture_output=True, text=True, check=False
    )
    if downloaded.returncode != 0:
        no_go(downloaded.stderr)
    return {"PROTOC": protoc, "GOOGLEAPIS": sysconfig.get_path("purelib")}


def test_a_go_program_commits_fetches_and_watches(
    serve: Callable[[Path], ServedFolder], tmp_path: Path
) -> None:
    if shutil.which("go") is None:
        no_go("there is no go")
    folder = tmp_path / "go"
    shutil.copytree(EXAMPLE, folder)
    call(["go", "build", "-o", "example", "."], folder, {})
    server = serve(tmp_path / "data")
    with server.running():
        printed = call([str(folder / "example"), "-address", server.address], folder, {})
    assert printed.splitlines() == PRINTED


def test_the_generated_code_is_that_of_the_protos(
    environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "go"
    shutil.copytree(EXAMPLE, folder)
    shutil.rmtree(folder / "offsetdv1")
    call(["./generate", str(ROOT / "protos")], folder, environment)
    made, kept = (
        {file.name: code_of(file) for file in (each / "offsetdv1").iterdir()}
        for each in (folder, EXAMPLE)
    )
    assert made == kept, "call docs/examples/go/generate"


def code_of(file: Path) -> list[str]:
    """Its lines, without the versions of what made it."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("//")]


def test_the_program_is_a_page() -> None:
    assert len((EXAMPLE / "main.go").read_text().splitlines()) < 150

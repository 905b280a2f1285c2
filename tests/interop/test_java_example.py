"""A program in Java, of the .proto files alone: Maven builds it, and it runs on both transports."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from interop.requirements import no_java
from server_process import ServerProcess

pytestmark = pytest.mark.single_server

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "docs" / "examples" / "java"
# Generous: where nothing is cached, Maven fetches gRPC and protoc.
SECONDS_MAX: Final = 600
PRINTED: Final = [
    "committed orders:0 = 42, on disk at revision 0",
    "43 refused: OFFSET_CONFLICT",
    "streamed 3 commits",
    *(f"fetched orders:{partition} = {partition or 42}" for partition in range(4)),
    "watched orders:0 = 42",
    "a watch of 0.3 s ended: DEADLINE_EXCEEDED",
]


def ended(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """A program, run to its end."""
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the compiled program, with all that it needs."""
    if shutil.which("mvn") is None:
        no_java("there is no mvn")
    folder = tmp_path_factory.mktemp("java") / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("target"))
    listed = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    options = [f"-Dprotos={ROOT / 'protos'}", "-Dmdep.outputFile=classpath"]
    built = ended(["mvn", "-q", "-B", "compile", listed, *options], folder)
    if built.returncode != 0 and "resolve" in built.stdout:
        no_java(built.stdout[:2000])
    assert built.returncode == 0, built.stdout + built.stderr
    return f"{folder / 'target' / 'classes'}:{(folder / 'classpath').read_text()}"


@pytest.mark.parametrize("transport", ["grpcio", "wire"])
def test_a_java_program_commits_streams_fetches_and_watches(
    classpath: str, transport: str, tmp_path: Path
) -> None:
    if transport == "wire" and importlib.util.find_spec("offsetd_wire") is None:
        pytest.skip("offsetd-wire is not installed")
    settings = {"transport": transport}
    with ServerProcess(tmp_path / "data", settings=settings).wait_until_serving() as server:
        command = ["java", "-classpath", classpath, "example.Main", server.address, "g"]
        program = ended([*command], tmp_path)
        server.stop_well()
    assert program.returncode == 0, program.stderr
    assert program.stdout.splitlines() == PRINTED

"""`.ci/wire`, which `make serve` and `make wire` call: a server is served whatever comes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
MINUTES_LINES: Final = "Building offsetd-wire"


def _build(
    folder: Path, *arguments: str, python: str | None, has_cargo: bool
) -> tuple[int, list[str]]:
    """The exit code and the lines of a build, by a `python` of this script and a cargo or none."""
    programs = folder / "programs"
    (folder / "venv" / "bin").mkdir(parents=True)
    programs.mkdir()
    for name in ("sh", "rm", "cat"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    scripts = {folder / "venv/bin/python": python}
    if has_cargo:
        scripts[programs / "cargo"] = "exit 0"
    for path, script in scripts.items():
        if script is not None:
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
    (folder / "dist").mkdir()
    ended = subprocess.run(
        [str(ROOT / ".ci" / "wire"), str(folder / "venv"), *arguments],
        cwd=folder,
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr.splitlines()


@pytest.mark.parametrize("arguments", [(), ("--optional",)])
def test_without_cargo_one_line_says_that_grpcio_serves(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    code, lines = _build(tmp_path, *arguments, python=None, has_cargo=False)
    assert (code, lines) == (0, ["Transport: grpcio. There is no cargo to build offsetd-wire."])


def test_a_build_that_fails_does_not_stop_the_server(tmp_path: Path) -> None:
    code, lines = _build(tmp_path, "--optional", python="echo why; exit 1", has_cargo=True)
    log = tmp_path / "venv" / "wire.log"
    assert code == 0
    assert lines[0].startswith(MINUTES_LINES)
    assert lines[1:] == [
        f"Transport: grpcio. offsetd-wire could not be built: {log} says why.",
    ]
    assert log.read_text() == "why\n"


def test_a_build_that_was_asked_for_fails_with_its_log(tmp_path: Path) -> None:
    code, lines = _build(tmp_path, python="echo why; exit 1", has_cargo=True)
    assert code == 1
    assert "why" in lines


def test_a_build_says_how_to_use_it(tmp_path: Path) -> None:
    code, lines = _build(tmp_path, "--optional", python="exit 0", has_cargo=True)
    assert code == 0
    assert lines[-1] == (
        "Transport: grpcio, or offsetd-wire with: make serve ARGS='--set transport=wire'"
    )

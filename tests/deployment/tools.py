"""Programs that read what is in deploy/: from PATH, the environment, or `make test-tools`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
_BUILT: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offsetd/tools-1"
_PLACES: Final = os.pathsep.join(
    [os.environ.get("PATH", ""), str(_BUILT), str(Path(sys.executable).parent)]
)
SECONDS_MAX: Final = 300


def tool(name: str) -> str:
    """Its path. Without it the test is skipped, or fails if OFFSETD_REQUIRE names it."""
    found = shutil.which(name, path=_PLACES)
    if found is None:
        if name in os.environ.get("OFFSETD_REQUIRE", "").split(","):
            pytest.fail(f"OFFSETD_REQUIRE asks for {name}", pytrace=False)
        pytest.skip(f"no {name} here; `make test-tools` fetches it")
    return found


def ran(name: str, *arguments: str | Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end."""
    return subprocess.run(
        [tool(name), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )


def did(name: str, *arguments: str | Path, folder: Path = ROOT) -> str:
    """What a tool printed. Fails if the tool finds something wrong."""
    ended = ran(name, *arguments, folder=folder)
    assert ended.returncode == 0, f"{name} {arguments}:\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def missing_tools(names: Sequence[str]) -> list[str]:
    """Those that are not here."""
    return [name for name in names if shutil.which(name, path=_PLACES) is None]

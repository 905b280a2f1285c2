"""The files of the repository, and their text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("storage/", "coordinator/", "clients/", "pipeline/")


def tracked_files() -> list[str]:
    """Every file of the repository; without git, every file of the folders that hold sources."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(ROOT), "-c", "safe.directory=*", "ls-files", "-z"]
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode()
        return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())
    folders = [*PACKAGES, "protos", "tests", "benchmarks", "docs", "deploy"]
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return sorted(str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts)


TRACKED = tracked_files()


def text_of(name: str) -> str | None:
    """A file's text, or None if it holds something else."""
    content = (ROOT / name).read_bytes()
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None

"""The code of released versions, out of this repository's history, to be run beside today's."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tomllib
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests/golden"
PACKAGES = ("protos", "storage", "coordinator", "clients")

# Version 0.1.0 has no tag: it is the last commit with the journal's format 1.
COMMIT_OF_RELEASE = {"0.1.0": "dd6bef00fa075fa4"}
# 0.1.0 has no clusters. Three nodes of this commit take turns with nodes of today.
BEFORE_0_2_0 = "d756fda0"


@attrs.frozen
class Release:
    """The code of one commit in a folder of its own, run by this environment's Python."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which this Python imports that code, and finds its commands."""
        return {"PYTHONPATH": os.pathsep.join(str(self.folder / package) for package in PACKAGES)}


def has_commit(commit: str) -> bool:
    """Returns whether the history is here: a shallow clone has none."""
    asked = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def unpack_release(commit: str, folder: Path) -> Release:
    """Puts the code of a commit into `folder`, as if it were installed."""
    asked = ["git", "-C", str(ROOT), "archive", commit, "pyproject.toml", *PACKAGES]
    archived = subprocess.run(asked, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archived)) as archive:
        archive.extractall(folder, filter="data")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    installed = folder / "protos" / f"offsetd-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: offsetd\nVersion: {project['version']}\n"
    )
    (installed / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
            for group, points in project["entry-points"].items()
        )
    )
    return Release(folder)

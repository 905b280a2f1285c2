"""Makes the data folders of a release, and what it answers about them.

    PYTHONPATH=tests python tests/golden/make_release_folders.py VERSION [COMMIT]

Without COMMIT it is today's code. The results are in tests/golden/offsetd-VERSION: a folder that
was stopped, and one whose server was killed while commits arrived; each as a tar file, with the
answers of a server of that release that opened a copy of it.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from release_answers import SETTINGS, answers, commit_until_killed, fill, has_rules
from releases import GOLDEN, unpack_release
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from collections.abc import Mapping


def make(version: str, commit: str | None) -> None:
    """Fills the folders with a server of that commit, and packs them."""
    target = GOLDEN / f"offsetd-{version}"
    target.mkdir(exist_ok=True)
    rules = has_rules(version)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        environment: Mapping[str, str] = {}
        if commit is not None:
            environment = unpack_release(commit, work / "code").environment

        def serve(folder: Path) -> ServerProcess:
            server = ServerProcess(folder, settings=SETTINGS, environment=environment)
            return server.wait_until_serving()

        with serve(work / "stopped") as server:
            fill(Stubs(server.channel()), rules=rules)
            server.stop_well()
        with serve(work / "killed") as server:
            fill(Stubs(server.channel()), rules=rules)
            acknowledged = commit_until_killed(server)
        for name, more in {"stopped": {}, "killed": {"acknowledged": acknowledged}}.items():
            _pack(work / name, target / f"{name}.tar.xz")
            shutil.copytree(work / name, work / f"{name}-copy")
            with serve(work / f"{name}-copy") as server:
                answered = {**answers(Stubs(server.channel()), rules=rules), **more}
            (target / f"{name}.json").write_text(
                json.dumps(answered, ensure_ascii=False, separators=(",", ":")) + "\n"
            )


def _pack(folder: Path, target: Path) -> None:
    with tarfile.open(target, "w:xz") as archive:
        archive.add(folder, arcname=".")


if __name__ == "__main__":
    make(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)

"""Finds how this program was installed and called, for messages with commands to type."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_DISTRIBUTION = "offsetd"
_MODULE_SCRIPT = "__main__.py"


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation.

    It installs from the same source as offsetd: a checkout, a wheel file, or else an index.
    """
    options, source = _source()
    return f"{_pip()} install {options}{shlex.quote(f'{source}[{extra}]')}"


def build_text() -> str:
    """Where this installation comes from: a checkout and its commit, a file, or an index."""
    options, source = _source()
    if not options:
        return source if source != _DISTRIBUTION else "a package index"
    path = str(Path(source).absolute())
    git = shutil.which("git")
    if git is None:
        return f"checkout {path}"
    ask = [git, "-C", path, "rev-parse", "--short=12", "HEAD"]
    said = subprocess.run(ask, capture_output=True, text=True, check=False)  # noqa: S603  No shell.
    return f"checkout {path}" + ("" if said.returncode else f", commit {said.stdout.strip()}")


def program_words() -> list[str]:
    """The words that called this program, without its arguments.

    They are `offsetd` if the shell finds it by that name, else the path that was typed, or `python
    -m package`.
    """
    script = sys.argv[0]
    if os.path.basename(script) != _MODULE_SCRIPT:  # noqa: PTH119  No path is made of it.
        return [_short(script)]
    return [_short(sys.orig_argv[0]), "-m", Path(script).parent.name]


def _source() -> tuple[str, str]:
    """The options of pip, and the requirement that it installs."""
    try:
        written = distribution(_DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        written = None
    direct = json.loads(written) if written else {}
    url = urlsplit(direct.get("url", ""))
    if url.scheme != "file":
        return "", _DISTRIBUTION
    path = unquote(url.path)
    is_editable = direct.get("dir_info", {}).get("editable", False)
    return "-e " if is_editable else "", "." if path == str(Path.cwd()) else path


def _pip() -> str:
    """Returns `pip` if that is the pip of this environment, else `python -m pip`."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(_short(sys.executable))} -m pip"


def _short(path: str) -> str:
    """A short form of `path`: its name if the shell finds it, or relative to the current folder.

    A relative path, or a path outside the current folder, stays as it is.
    """
    name = Path(path).name
    if shutil.which(name) == path:
        return name
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here)

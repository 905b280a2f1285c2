"""Runs `offsetd backup` in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SECONDS_MAX = 240
_COMMAND = "from offsetd_clients.cli.main import main; main()"


def command(address: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """`offsetd backup` in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if "OFFSETD_" not in name}
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND, "backup", *map(str, arguments), "-o", "json"],
        env={**environment, "OFFSETD_ADDRESS": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str], *, code: int = 0) -> Any:
    """What it printed, once it has ended with this exit code; its stderr if that is not 0."""
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == code, err
    return err if code else json.loads(out or "null")

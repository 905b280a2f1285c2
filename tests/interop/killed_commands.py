"""`offsetd` commands that are killed -9 on their way, at each of the steps that leave something.

A step is a line of a plan or of its journal, a file that gets its name, or a write to a server or
a broker. Commands are forked from a process that has imported everything, and so cost little.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from io import StringIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsetd_clients.cli.application import run
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.migration.kafka.cluster import KafkaCluster
from offsetd_clients.migration.migration_journal import Journal
from offsetd_clients.migration.plan_file import _Hashed
from offsetd_clients.migration.target import Target
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS: tuple[tuple[type, str], ...] = (
    (Journal, "_append"),
    (KafkaCluster, "set_offsets"),
    (_Hashed, "line"),
    (Path, "replace"),
    (Target, "put"),
    (Target, "delete"),
)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["interop.killed_commands", "offsetd_clients.cli.migration.migrate_kafka"]
)


def killed_at(moment: int, address: str, *arguments: str) -> bool:
    """Runs a command, and kills it before a step: 1 is the first.

    Returns whether there are as many steps; else it came to its end.
    """
    process = _context.Process(target=_run, args=(moment, address, arguments))
    process.start()
    process.join(PATIENCE_SECONDS)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode == -signal.SIGKILL


def _run(moment: int, address: str, arguments: tuple[str, ...]) -> None:
    moments = count(1)

    def pass_moment() -> None:
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    for owner, name in _STEPS:
        setattr(owner, name, _watched(getattr(owner, name), pass_moment))
    os.environ["OFFSETD_ADDRESS"] = address
    sys.argv = ["offsetd", *arguments]
    stderr = StringIO()
    code = run(Terminal(StringIO(), stderr))
    sys.stderr.write(stderr.getvalue())
    sys.exit(code)


def _watched(step: Callable[..., Any], pass_moment: Callable[[], None]) -> Callable[..., Any]:
    def watched(*arguments: Any, **options: Any) -> Any:
        pass_moment()
        return step(*arguments, **options)

    return watched

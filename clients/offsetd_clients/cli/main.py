"""The command `offsetd`: what the installed script calls.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 partly done.
"""

import gc
import sys

from offsetd_clients.cli.at_once import run_at_once
from offsetd_clients.cli.endings import OURS


def main() -> None:
    """Runs the command line on `sys.argv` and exits. A missing extra is one line, not a trace."""
    gc.disable()  # Imports leave no garbage worth a look. A command begins with it enabled.
    try:
        sys.exit(_exit_code())
    finally:
        gc.enable()


def _exit_code() -> int:
    code = run_at_once(sys.argv[1:])
    if code is not None:
        return code
    try:
        from offsetd_clients.cli.application import run  # noqa: PLC0415  # the extra may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        from offsetd_clients.installation import install_command  # noqa: PLC0415  rarely needed

        sys.stderr.write(f"error: {error.name} is not installed: {install_command('cli')}\n")
        return 1
    return run()

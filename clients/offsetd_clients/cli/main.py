"""The command `offsetd`: the function that the installed script calls.

Exit codes: 0 success, 1 failure, 2 wrong use, 3 partial success.
"""

import gc
import sys

from offsetd_clients.cli.command_exit import OURS
from offsetd_clients.cli.fast_start import run_at_once


def main() -> None:
    """Runs the command line on `sys.argv` and exits.

    For a missing extra, it prints one line, not a trace.
    """
    # Imports leave almost no garbage. Collection is enabled again before a command runs.
    gc.disable()
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

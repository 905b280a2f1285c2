"""`offsetd serve --web`: the pages of `offsetd web`, in a process of their own.

They are a client like any other. Their end does not end the server; they end with it, because their
standard input then closes.
"""

import asyncio
import importlib.util
import logging
import sys
from typing import Final

LISTEN_DEFAULT: Final = "127.0.0.1:7172"
_PACKAGES: Final = ("jinja2", "starlette", "typer", "uvicorn")
_COMMAND: Final = "from offsetd_clients.cli.main import main; main()"
# Where a client on the same machine reaches a port that is open on all addresses.
_NEAR: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104
_log = logging.getLogger(__name__)


def missing_package() -> str | None:
    """A package of the extra `web` that is not installed."""
    return next((name for name in _PACKAGES if importlib.util.find_spec(name) is None), None)


def near_address(address: str) -> str:
    """The address at which this machine reaches a server that listens on `address`."""
    host, colon, port = address.rpartition(":")
    return f"{_NEAR.get(host, host)}{colon}{port}"


async def serve_pages(listen: str, address: str) -> None:
    """Runs the pages until they end, and logs their end. Cancelled, it leaves them."""
    words = ["web", "--listen", listen, "--address", near_address(address), "--end-with-stdin"]
    try:
        # -P: no module of the working directory is taken for one of ours.
        pages = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _COMMAND, *words), stdin=asyncio.subprocess.PIPE
        )
    except OSError as error:
        _log.warning("the pages cannot be started: %s", error)
        return
    code = await pages.wait()
    _log.warning("the pages have ended with %d; the server goes on without them", code)

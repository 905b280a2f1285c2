"""`offsetd web` in a process of its own, and plain HTTP requests to it."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS_MAX = 60
# By default, a page gives up after 2 s, and says that the server is lost. On a busy machine a
# server may stand still for longer; only tests about a lost server need the default.
PATIENT = ("--timeout", "60")
_COMMAND = "from offsetd_clients.cli.main import main; main()"


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body
        self.text = body.decode()


class WebProcess:
    """The command on a port of the machine's choosing."""

    def __init__(
        self, address: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        inherited = {key: value for key, value in os.environ.items() if "OFFSETD_" not in key}
        is_told = any(each.startswith("--listen") for each in arguments)
        listen = () if is_told else ("--listen", "127.0.0.1:0")
        words = ["web", "--address", address, *listen, *arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**inherited, **(environment or {})},
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        self.url = self.first_line.partition(" ")[0]
        self.port = urlsplit(self.url).port if "://" in self.url else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(SECONDS_MAX)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Ends it with a signal: its exit code, and what else it printed."""
        self.process.send_signal(number)
        assert self.process.stdout is not None
        code = self.process.wait(SECONDS_MAX)
        return code, self.process.stdout.read()

    def refusal(self) -> str:
        """What a command that was used wrongly says, in one line."""
        assert self.process.stdout is not None
        code = self.process.wait(SECONDS_MAX)
        told = self.first_line + self.process.stdout.read()
        assert code == 2, told
        return " ".join(told.replace("│", " ").split())

    def get(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        body: str | None = None,
    ) -> Answer:
        """One request, with any `Host`."""
        assert self.port is not None, self.first_line
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, body, headers=dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

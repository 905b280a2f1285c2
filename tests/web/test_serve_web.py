"""`offsetd serve --web`: the pages beside the server, which neither needs nor waits for them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from server_process import ServerProcess, poll
from web.web_process import SECONDS_MAX

pytestmark = pytest.mark.single_server

ORDERS = TopicPartition("orders", 0)
ANY_PORT = ("--web", "--web-listen", "127.0.0.1:0")


def _url(server: ServerProcess) -> str:
    """The address that the pages tell, in one line."""
    assert server.process.stdout is not None
    line = server.process.stdout.readline()
    url, _, rest = line.partition(" ")
    assert rest.startswith(f"shows {server.address}")
    return url


def _child(server: ServerProcess) -> int:
    pid = server.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _is_open(url: str) -> bool:
    port = int(url.rpartition(":")[2])
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def test_the_pages_show_the_server_and_end_with_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", arguments=ANY_PORT).wait_until_serving() as server:
        url = _url(server)
        with OffsetClient(server.address) as client:
            client.commit("beside", {ORDERS: 42})
        with urlopen(f"{url}/groups", timeout=SECONDS_MAX) as answer:
            assert b"beside" in answer.read()
        assert _is_open(url)
        os.kill(server.process.pid, signal.SIGKILL)  # Not its group.
        poll(lambda: not _is_open(url), SECONDS_MAX)


def test_the_server_goes_on_without_its_pages(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", arguments=ANY_PORT).wait_until_serving() as server:
        _url(server)
        os.kill(_child(server), signal.SIGKILL)
        poll(lambda: "the pages have ended" in server.log, SECONDS_MAX)
        with OffsetClient(server.address) as client:
            client.commit("alone", {ORDERS: 1})
        assert server.process.poll() is None
        assert server.stop() == 0


def test_with_a_taken_port_the_server_says_so_and_serves(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        arguments = ("--web", f"--web-listen={listen}")
        with ServerProcess(tmp_path / "data", arguments=arguments).wait_until_serving() as server:
            poll(lambda: "the server goes on without them" in server.log, SECONDS_MAX)
            assert f"--listen {listen}: Address already in use" in server.log
            with OffsetClient(server.address) as client:
                client.commit("alone", {ORDERS: 1})


@pytest.mark.parametrize(
    ("arguments", "before", "told"),
    [
        (["--web"], "sys.modules['starlette'] = None", "starlette is not installed"),
        (["--web-listen", "127.0.0.1:0"], "", "is for the pages of --web"),
    ],
)
def test_a_start_that_cannot_have_pages_is_refused(
    tmp_path: Path, arguments: list[str], before: str, told: str
) -> None:
    code = f"import sys; {before or 'pass'}; from offsetd_clients.cli.main import main; main()"
    words = ["serve", "--data-dir", str(tmp_path / "data"), *arguments]
    ended = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0
    assert told in ended.stderr
    assert not (tmp_path / "data").exists()

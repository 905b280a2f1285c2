"""A real `offsetd serve` process for a test."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interop.ports import free_ports
from offsetd_clients import OffsetClient, OffsetdError, RetryPolicy, ServerState

OFFSETD = Path(sys.executable).parent / "offsetd"
# The first start on a machine compiles kernels.
START_S_MAX = 300
STOP_S_MAX = 60


class ServerProcess:
    """`offsetd serve` on a data folder; what it says is appended to `log`."""

    def __init__(self, *, data_folder: Path, log: Path, settings: tuple[str, ...] = ()) -> None:
        self.data_folder = data_folder
        self.log = log
        self.address = ""
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[OffsetClient]:
        """Serving within, with a client; stopped cleanly after, unless it was killed within."""
        client = self.start()
        with client:
            try:
                yield client
            except BaseException as error:
                self.kill()
                error.add_note(f"offsetd said:\n{self.log_text()[-4000:]}")
                raise
        self.stop()

    def start(self) -> OffsetClient:
        """Returns a client once it serves."""
        self._launch()
        try:
            self._wait_until_it_serves()
        except BaseException:
            self.kill()
            raise
        return OffsetClient(self.address, retry=RetryPolicy(timeout_s=30))

    def stop(self) -> None:
        """SIGTERM; it must end with exit code 0."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            code = self._process.wait(STOP_S_MAX)
            self._process = None
            assert code == 0, f"exit code {code} after SIGTERM:\n{self.log_text()[-4000:]}"

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S_MAX)
            self._process = None

    def refusal(self) -> str:
        """Starts it where it must refuse to: returns what it says. Its exit code must not be 0."""
        before = len(self.log_text())
        self._launch()
        assert self._process is not None
        code = self._process.wait(START_S_MAX)
        self._process = None
        said = self.log_text()[before:]
        assert code != 0, f"it started and ended with exit code 0:\n{said}"
        return said

    def log_text(self) -> str:
        """All that it has said on stderr."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _launch(self) -> None:
        assert self._process is None, "it runs already"
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        command = [str(OFFSETD), "serve", "--listen", self.address]
        command += ["--data-dir", str(self.data_folder)]
        for setting in self._settings:
            command += ["--set", setting]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def _wait_until_it_serves(self) -> None:
        deadline_s = time.monotonic() + START_S_MAX
        with OffsetClient(self.address, retry=RetryPolicy(timeout_s=1)) as client:
            while not is_serving(client):
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline_s:
                    raise AssertionError(f"offsetd does not start:\n{self.log_text()[-4000:]}")
                time.sleep(0.02)


def is_serving(client: OffsetClient) -> bool:
    """Whether the server has loaded and answers."""
    try:
        return client.get_server_info().state is ServerState.SERVING
    except OffsetdError:
        return False

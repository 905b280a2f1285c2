"""A data folder that real `offsetd serve` processes serve, one after the other."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offsetd_clients import OffsetClient, RetryPolicy
from server_process import ServerProcess

OFFSETD = Path(sys.executable).parent / "offsetd"


class ServedFolder:
    """One data folder, and at most one server on it at a time."""

    def __init__(self, data_folder: Path, settings: tuple[str, ...] = ()) -> None:
        self.data_folder = data_folder
        self.address = ""
        self._arguments = [part for setting in settings for part in ("--set", setting)]
        self._process: ServerProcess | None = None

    @contextmanager
    def running(self) -> Iterator[OffsetClient]:
        """Serving within, with a client; stopped cleanly after, unless it was killed within."""
        client = self.start()
        with client:
            try:
                yield client
            except BaseException as error:
                if self._process is not None:
                    error.add_note(f"offsetd said:\n{self._process.log[-4000:]}")
                self.kill()
                raise
        self.stop()

    def start(self) -> OffsetClient:
        """Returns a client once it serves."""
        process = self._launch()
        try:
            process.wait_until_serving()
        except BaseException:
            self.kill()
            raise
        self.address = process.address
        return OffsetClient(self.address, retry=RetryPolicy(timeout_s=30))

    def stop(self) -> None:
        """SIGTERM; it must end with exit code 0."""
        if self._process is not None:
            process, self._process = self._process, None
            with process:
                code = process.stop()
                assert code == 0, f"exit code {code} after SIGTERM:\n{process.log[-4000:]}"

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def refusal(self) -> str:
        """Starts it where it must refuse to: returns what it says. Its exit code must not be 0."""
        with self._launch() as process:
            code = process.wait_for_exit()
        self._process = None
        assert code != 0, f"it started and ended with exit code 0:\n{process.log}"
        return process.log

    def _launch(self) -> ServerProcess:
        assert self._process is None, "it runs already"
        self._process = ServerProcess(self.data_folder, arguments=self._arguments)
        return self._process

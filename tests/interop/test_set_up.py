"""`.ci/venv`, which make calls: whenever it is interrupted, the next call ends well."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from chance import chosen

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.long(minutes=2)

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = "six==1.17.0"  # A small one: what matters is what pip leaves.


class SetUp:
    """A call of `.ci/venv` in a checkout, with a process group of its own."""

    def __init__(self, checkout: Path, package: str = PACKAGE) -> None:
        self.venv = checkout / ".venv"
        self.text = ""
        self._process = subprocess.Popen(
            ["sh", ".ci/venv", str(self.venv), "/dev/null", package],
            cwd=checkout,
            env={**os.environ, "PYTHON": sys.executable},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """As Ctrl-C in a terminal does: every process of the group is told."""
        os.killpg(self._process.pid, number)
        self.wait()

    def wait(self) -> int:
        code = self._process.wait(300)
        self._reader.join(60)
        return code

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.text += line


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    return folder


def has_package(checkout: Path) -> bool:
    python = checkout / ".venv" / "bin" / "python"
    looked = subprocess.run(
        [str(python), "-c", "import six, pip"], capture_output=True, check=False
    )
    return looked.returncode == 0


MOMENTS: Final[dict[str, Callable[[SetUp], bool]]] = {
    "the folder is there": lambda made: made.venv.exists(),
    "its Python is there": lambda made: (made.venv / "bin/python").exists(),
    "its pip is being installed": lambda made: any(made.venv.glob("lib/*/site-packages/pip")),
    "pip is being replaced": lambda made: (
        any(made.venv.glob("lib/*/site-packages/~ip*")) or "Installing" in made.text
    ),
    "packages are being installed": lambda made: "Installing" in made.text,
}


INTERRUPTIONS: Final = (
    *((moment, signal.SIGINT) for moment in MOMENTS),
    ("pip is being replaced", signal.SIGKILL),
)


@pytest.mark.parametrize(("moment", "number"), chosen("interruptions", INTERRUPTIONS, 2))
def test_a_set_up_that_was_interrupted_is_made_whole_by_the_next(
    checkout: Path, moment: str, number: int
) -> None:
    first = SetUp(checkout)
    while not (first.has_ended or MOMENTS[moment](first)):
        time.sleep(0.001)
    first.interrupt(number)
    second = SetUp(checkout)
    assert second.wait() == 0, second.text
    assert has_package(checkout)
    assert not (checkout / ".venv" / ".incomplete").exists()


def test_an_environment_without_pip_is_made_again(checkout: Path) -> None:
    """What an interrupted set-up left before there was a mark."""
    assert SetUp(checkout).wait() == 0
    for pip in checkout.glob(".venv/lib/*/site-packages/pip"):
        shutil.rmtree(pip)
    again = SetUp(checkout)
    assert again.wait() == 0
    assert "starting it again" in again.text
    assert has_package(checkout)


def test_a_package_that_cannot_be_had_is_told_and_leaves_the_environment(checkout: Path) -> None:
    assert SetUp(checkout).wait() == 0
    failing = SetUp(checkout, "six==0.0.0.1")
    assert failing.wait() != 0
    assert "six==0.0.0.1" in failing.text
    assert has_package(checkout)
    assert not (checkout / ".venv" / ".incomplete").exists()
    after = SetUp(checkout)
    assert after.wait() == 0
    assert "starting it again" not in after.text


def test_two_set_ups_of_a_checkout_take_turns(checkout: Path) -> None:
    both = [SetUp(checkout), SetUp(checkout)]
    assert [each.wait() for each in both] == [0, 0], [each.text for each in both]
    assert has_package(checkout)

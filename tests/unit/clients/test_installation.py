"""Messages name a command that works where they are read."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from offsetd_clients import installation

WHEEL = "/opt/my wheels/offsetd-0.1.0-py3-none-any.whl"


def direct(url: str, **more: object) -> str:
    return json.dumps({"url": url, **more})


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (None, "pip install 'offsetd[spark]'"),
        (direct("https://example.com/offsetd.whl"), "pip install 'offsetd[spark]'"),
        (direct("file:///opt/my%20wheels/offsetd-0.1.0-py3-none-any.whl"), f"'{WHEEL}[spark]'"),
        (direct("file:///src/offsetd", dir_info={"editable": True}), "-e '/src/offsetd[spark]'"),
        (direct("file:///src/offsetd", dir_info={}), "pip install '/src/offsetd[spark]'"),
        (direct(f"file://{Path.cwd()}", dir_info={"editable": True}), "pip install -e '.[spark]'"),
    ],
)
def test_the_extra_is_added_to_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, written: str | None, told: str
) -> None:
    found = SimpleNamespace(read_text=lambda _name: written)
    monkeypatch.setattr(installation, "distribution", lambda _name: found)
    assert installation.install_command("spark").endswith(told)


def test_without_a_distribution_the_index_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Spark executor, to which the package came as a zip file."""

    def none(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", none)
    assert installation.install_command("spark").endswith("pip install 'offsetd[spark]'")


def test_pip_is_that_of_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = Path(sys.executable).with_name("pip")
    monkeypatch.setenv("PATH", str(pip.parent))
    assert installation.install_command("cli").startswith("pip install ")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert " -m pip install " in installation.install_command("cli")


def test_a_program_is_named_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "venv" / "bin" / "offsetd"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script), "fetch"])
    assert installation.program_words() == ["offsetd"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert installation.program_words() == [str(script)]
    monkeypatch.chdir(tmp_path)
    assert installation.program_words() == ["venv/bin/offsetd"]
    monkeypatch.setattr(sys, "argv", ["venv/bin/offsetd", "fetch"])
    assert installation.program_words() == ["venv/bin/offsetd"]


def test_a_module_is_named_with_its_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/site/offsetd_pipeline/__main__.py", "audit"])
    monkeypatch.setattr(sys, "orig_argv", [".venv/bin/python", "-m", "offsetd_pipeline", "audit"])
    assert installation.program_words() == [".venv/bin/python", "-m", "offsetd_pipeline"]

"""benchmarks.harness.bytecode: a checkout is started as an installed package is."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.harness.bytecode import BYTECODE, with_bytecode
from benchmarks.harness.our_server import serving

if TYPE_CHECKING:
    from pathlib import Path


def test_a_checkout_has_bytecode_where_python_writes_none_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "module.py").write_text("")
    subprocess.run(
        [sys.executable, "-c", "import module"],
        check=True,
        cwd=tmp_path,
        env=with_bytecode(tmp_path / "bytecode"),
    )
    assert list((tmp_path / "bytecode").rglob("module.*.pyc"))
    assert not (tmp_path / "__pycache__").exists()


def test_a_server_that_is_measured_is_started_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = []

    def started(_command: list[str], **options: Any) -> None:
        environments.append(options["env"])
        raise FileNotFoundError("enough")

    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(FileNotFoundError, match="enough"), serving(tmp_path):
        pass
    assert environments == [with_bytecode(BYTECODE)]

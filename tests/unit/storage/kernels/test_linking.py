"""Kernels that are linked: the same ones without Numba, or else those that Numba has."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from kernel_processes import output, run
from offsetd_storage.kernels import linking, registry
from offsetd_storage.kernels.linking import MachineCode

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PACKAGE = "offsetd_storage.kernels"
KEEP = f"""
from offsetd_storage.kernels import registry
from offsetd_storage.kernels.crc32c import crc32c
registry.warm()
registry.keep_linked("{PACKAGE}")
print(registry.is_linked())
"""
LINK = f"""
import sys
from offsetd_storage.kernels import padded_copy, registry
print(registry.link("{PACKAGE}"), registry.is_linked())
from offsetd_storage.kernels.crc32c import continued_crc32c, crc32c
text = padded_copy(b"123456789")
print(crc32c(text, 0, 9), continued_crc32c(crc32c(text, 0, 4), text, 4, 9))
print("numba" in sys.modules, crc32c.__name__, crc32c.__module__)
"""
CHECKSUM = 0xE3069283
IS_LINKED = f"True True\n{CHECKSUM} {CHECKSUM}\nFalse crc32c {PACKAGE}.crc32c"
IS_NUMBAS = f"False False\n{CHECKSUM} {CHECKSUM}\nTrue crc32c {PACKAGE}.crc32c"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cache of a process that has kept its kernels for others to link."""
    folder = tmp_path_factory.mktemp("kept")
    assert output(run(KEEP, folder=folder)) == "False"
    return folder


def linked_files(folder: Path) -> list[Path]:
    return list(folder.glob("cache/offsetd/kernels/*/linked"))


def test_a_process_that_links_has_the_same_kernels_without_numba(kept: Path) -> None:
    assert len(linked_files(kept)) == 1
    assert output(run(LINK, folder=kept)) == IS_LINKED


def test_what_was_not_kept_is_numbas(tmp_path: Path) -> None:
    assert output(run(LINK, folder=tmp_path)) == IS_NUMBAS


def test_nothing_is_linked_if_a_variable_of_numba_is_set(kept: Path) -> None:
    assert output(run(LINK, folder=kept, NUMBA_DEBUG_ARRAY_OPT_STATS="0")) == IS_NUMBAS


def test_once_a_kernel_was_imported_all_are_numbas(kept: Path) -> None:
    assert output(run(f"from {PACKAGE}.crc32c import crc32c\n{LINK}", folder=kept)) == IS_NUMBAS


def test_a_damaged_file_is_as_none_and_comes_back(kept: Path) -> None:
    [path] = linked_files(kept)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert output(run(LINK, folder=kept)) == IS_NUMBAS
    output(run(KEEP, folder=kept))
    assert path.read_bytes() == whole


def test_what_was_made_of_other_sources_is_not_linked(tmp_path: Path) -> None:
    package = tmp_path / "probe" / "kernels"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    script = f"""
from offsetd_storage.kernels import registry
packages = ("{PACKAGE}", "probe.kernels")
print(registry.link(*packages))
from offsetd_storage.kernels import crc32c
from probe.kernels.scaled import scaled
print(scaled(3))
registry.warm()
registry.keep_linked(*packages)
"""
    outputs = []
    for factor in (2, 2, 5, 5):
        (package / "scaled.py").write_text(
            "from offsetd_storage.kernels.registry import kernel\n"
            "@kernel('int64(int64)')\n"
            f"def scaled(number):\n    return number * {factor}\n"
        )
        outputs.append(output(run(script, folder=tmp_path, PYTHONDONTWRITEBYTECODE="1")).split())
    assert outputs == [["False", "6"], ["True", "6"], ["False", "15"], ["True", "15"]]


def test_a_kernel_that_is_linked_refuses_what_is_no_array_of_its_width(kept: Path) -> None:
    script = f"""
import numpy as np
from offsetd_storage.kernels import registry
registry.link("{PACKAGE}")
from offsetd_storage.kernels.crc32c import crc32c
for wrong in (b"123456789", None, np.zeros(9, np.int64)):
    try:
        print(crc32c(wrong, 0, 9))
    except TypeError:
        print("refused")
"""
    assert output(run(script, folder=kept)).splitlines() == ["refused"] * 3


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param([], id="none"),
        pytest.param([MachineCode("a.b", "c", "d", b"no object file")], id="no machine code"),
    ],
)
def test_what_does_not_link_is_never_kept(
    kernels: list[MachineCode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert not linking.keep_linked([PACKAGE], kernels)
    assert linked_files(tmp_path) == []


@pytest.mark.parametrize("executable", ["", "missing/python"])
def test_where_nothing_can_be_tried_nothing_is_kept(
    executable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "executable", executable)
    assert not linking.keep_linked([PACKAGE], [])
    assert linked_files(tmp_path) == []


def test_what_one_kernel_is_missing_from_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(linking, "keep_linked", lambda *arguments: asked.append(arguments))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # Which has none.
    registry.import_kernels(PACKAGE)
    registry.keep_linked(PACKAGE)
    assert asked == []

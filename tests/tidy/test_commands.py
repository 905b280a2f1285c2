"""The commands of the Makefile: `make help` has all, and each part of the tests has its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import parts
import pytest

ROOT: Final = Path(__file__).parents[2]
MAKEFILE: Final = (ROOT / "Makefile").read_text()
HELP: Final = MAKEFILE[: MAKEFILE.index("\n\n")]
[PHONY] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize("target", PHONY.split())
def test_help_has_each_command_and_says_whether_it_takes_arguments(target: str) -> None:
    [said] = re.findall(rf"#   make {target} .*(?:\n# {{10,}}.*)*", HELP)
    [rule] = re.findall(rf"^{target}:.*(?:\n\t.*)*", MAKEFILE, re.MULTILINE)
    assert ("ARGS=" in said) == ("$(ARGS)" in rule)


def test_what_the_parts_name_is_there() -> None:
    assert all((ROOT / "tests" / name).is_dir() for name in parts.REST_FOLDERS)
    assert sum("pytest.mark.long(" in file.read_text() for file in ROOT.glob("tests/*/*.py")) > 1


def test_the_tests_of_kernels_are_where_make_bounds_looks() -> None:
    marked = [file for file in ROOT.glob("tests/**/test_*.py") if "mark.kernel" in file.read_text()]
    folders = {file.relative_to(ROOT).parts[1] for file in marked} - {"tidy"}
    assert folders == {"unit", "property"}
    assert "-m kernel tests/unit tests/property" in MAKEFILE


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Tests in two folders, with the conftest of this tree."""
    tests = tmp_path / "tests"
    for folder in ("sim", "unit"):
        (tests / folder).mkdir(parents=True)
    for name in ("conftest.py", "parts.py"):
        shutil.copy(ROOT / "tests" / name, tests)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tests / "sim" / "test_crash.py").write_text("def test_crash(): ...\n")
    text = "import pytest\n"
    for marker in ("slow", "kernel", "long(minutes=1)", "long(minutes=2)"):
        name = re.sub(r"\W", "", marker)
        text += f"@pytest.mark.{marker}\ndef test_{name}(): ...\n"
    (tests / "unit" / "test_unit.py").write_text(text)
    return tmp_path


def run(tree: Path, *arguments: str) -> tuple[list[str], str]:
    """The names of the tests that ran, in order, and what was printed."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "PASSED" in line]
    return re.findall(r"::test_(\w+)", "\n".join(lines)), done.stdout


LONG_FIRST: Final = ["longminutes2", "longminutes1"]
XDIST: Final = ["-n1", "--dist=loadfile", "--no-loadscope-reorder"]


@pytest.mark.parametrize(
    ("arguments", "ran", "says_what_is_left_out"),
    [
        (["--part=short", *XDIST], [*LONG_FIRST, "kernel"], True),
        (["--part=rest"], ["crash", "slow"], False),
        # What is named runs whole.
        (
            ["--part=short", "tests/sim", "tests/unit"],
            [*LONG_FIRST, "crash", "slow", "kernel"],
            False,
        ),
    ],
)
def test_a_part_is_run_and_the_longest_begin_first(
    tree: Path, arguments: list[str], ran: list[str], says_what_is_left_out: bool
) -> None:
    names, printed = run(tree, *arguments)
    assert names == ran
    assert ("make test ARGS=tests/sim" in printed) == says_what_is_left_out

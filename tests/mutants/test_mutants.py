"""The tests prove themselves: with each planted bug, a test that should notice does fail.

A mutant is one replacement in one function (see `mutants.planted.Mutant`), applied to a copy of
the packages; the test that has to catch it runs against the copy. CI replays a
twenty-fourth, chosen by the commit, and `make nightly` all of them.
"""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chance import session_seed
from mutants.planting import MisplacedMutantError, planted

if TYPE_CHECKING:
    from mutants.planted import Mutant

pytestmark = pytest.mark.long(minutes=9)

# Each commit tries one part of so many: all of them take more than an hour.
COMMITS_FOR_ALL = 24
FOLDER = Path(__file__).parent
ROOT = Path(__file__).parents[2]
WIRE_ROOT = "transport"
SOURCE_ROOTS = ("protos", "storage", "coordinator", "clients", "pipeline", WIRE_ROOT)
# A test that notices does so at its short settings. The client's package sets the second, and its
# own setting would hide a planted one.
NOT_PASSED_ON = ("OFFSETD_NIGHTLY", "GRPC_VERBOSITY")
TESTS_FAILED_EXIT = 1  # pytest: tests ran and some failed; a broken import or no test is another
SEEDS = 3  # A race of threads, or drawn data, may not meet the bug with the first one.


def all_mutants() -> list[Mutant]:
    """Those of every tuple `…MUTANTS` in a module `planted…` of this folder."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]))
    modules = [import_module(f"mutants.{name}") for name in names if name.startswith("planted")]
    return [
        mutant
        for module in modules
        for name, mutants in vars(module).items()
        if name.endswith("MUTANTS")
        for mutant in mutants
    ]


MUTANTS = all_mutants()


def source_path(mutant: Mutant) -> Path:
    """The file of the mutant's module, in the repository."""
    module = mutant.where.partition(":")[0].replace(".", "/")
    paths = [
        path
        for root in SOURCE_ROOTS
        for path in (Path(root, f"{module}.py"), Path(root, module, "__init__.py"))
        if (ROOT / path).exists()
    ]
    assert len(paths) == 1, f"{module} is not one module: mend the mutant"
    return paths[0]


def mutated_source(mutant: Mutant) -> str:
    """The source with the bug; fails where the mutant no longer fits."""
    path = source_path(mutant)
    function = mutant.where.partition(":")[2]
    try:
        return planted((ROOT / path).read_text(), function, mutant.replace, mutant.by)
    except MisplacedMutantError as error:
        pytest.fail(f"{path} has changed, mend the mutant: {error}")


def assert_there(node: str) -> None:
    """A file of tests, or a test or class in it, by its name for pytest."""
    path, *names = node.partition("[")[0].split("::")
    assert (ROOT / path).is_file(), f"there is no {path}: mend the mutant"
    source = (ROOT / path).read_text()
    for name in names:
        found = re.search(rf"(?m)^ *(async def|def|class) {name}\b", source)
        assert found, f"{path} has no {name}: mend the mutant"


def chosen_mutants() -> list[Mutant]:
    """All of them at night; else a part, which the commit chooses by its tree."""
    if os.environ.get("OFFSETD_NIGHTLY"):
        return MUTANTS
    turn = session_seed() % COMMITS_FOR_ALL
    return [mutant for place, mutant in enumerate(MUTANTS) if place % COMMITS_FOR_ALL == turn]


def native_parts() -> list[Path]:
    """The compiled part of offsetd-wire, where it is installed: the copy of its Python needs it."""
    spec = find_spec("offsetd_wire")
    places = spec.submodule_search_locations if spec is not None else None
    return [path for place in places or () for path in Path(place).glob("_wire*.so")]


def plant(mutant: Mutant, folder: Path) -> dict[str, str]:
    """Copies the packages, applies the mutant; returns the environment that imports the copy."""
    native = native_parts()
    roots = SOURCE_ROOTS if native else [root for root in SOURCE_ROOTS if root != WIRE_ROOT]
    if not native and source_path(mutant).parts[0] == WIRE_ROOT:
        pytest.skip("offsetd-wire is not installed")
    for root in roots:
        shutil.copytree(ROOT / root, folder / root, ignore=shutil.ignore_patterns("__pycache__"))
    for path in native:
        shutil.copy(path, folder / WIRE_ROOT / "offsetd_wire")
    (folder / source_path(mutant)).write_text(mutated_source(mutant))
    search_path = os.pathsep.join(str(folder / root) for root in roots)
    environment = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    return environment | {
        "PYTHONPATH": search_path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "unshrunk",
        "OFFSETD_TEST_PATIENCE_SECONDS": "20",
    }


def noticing(mutant: Mutant, folder: Path) -> subprocess.CompletedProcess[str]:
    """The run that fails; else the last one. A test that draws its data may need another seed."""
    environment = plant(mutant, folder)
    for further in range(SEEDS):
        environment["OFFSETD_TEST_SEED"] = str((session_seed() + further) % 2**32)
        outcome = run_test(mutant.caught_by, environment)
        if outcome.returncode == TESTS_FAILED_EXIT:
            break
    return outcome


def run_test(node: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs one test, or the tests of one file, in a process of its own."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--kernels-on-demand"]
    command = [sys.executable, "-m", "pytest", *options, node]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.parametrize("mutant", chosen_mutants(), ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    outcome = noticing(mutant, tmp_path)
    assert outcome.returncode == TESTS_FAILED_EXIT, (
        f"{mutant.caught_by} did not notice: {mutant.name}\n{outcome.stdout[-3000:]}"
        f"\n{outcome.stderr[-2000:]}"
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_applies(mutant: Mutant) -> None:
    mutated_source(mutant)
    assert_there(mutant.caught_by)

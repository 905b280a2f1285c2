"""The house rules hold in every tracked file, and the rules themselves find what they are for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tidy import rules
from tidy.tracked import PACKAGES, ROOT, TRACKED, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GENERATED = ("_pb2.py", "_pb2_grpc.py")
PYTHON = [name for name in TRACKED if name.endswith(".py") and not name.endswith(GENERATED)]
SOURCES = [name for name in PYTHON if name.startswith(PACKAGES)]


def assert_none(problems: Iterable[str]) -> None:
    found = list(problems)
    assert not found, "\n".join(["against the house rules:", *found])


def source_problems(names: Iterable[str], rule: Callable[[str], Iterable[str]]) -> list[str]:
    return [f"{name}: {problem}" for name in names for problem in rule((ROOT / name).read_text())]


def test_there_are_sources_to_judge() -> None:
    assert "storage/offsetd_storage/disk/files.py" in SOURCES
    assert "tests/tidy/test_tidy.py" in PYTHON
    assert any(name.endswith(".proto") for name in TRACKED)


def test_functions_files_and_lines_are_short() -> None:
    assert_none(source_problems(PYTHON, rules.size_problems))


def test_names_say_something() -> None:
    assert_none(
        f"{name}: {problem}"
        for name in PYTHON
        for problem in rules.name_problems(name, (ROOT / name).read_text())
    )


def test_unit_tests_stand_in_rooms() -> None:
    assert_none(rules.room_problems(PYTHON))


def test_only_one_module_touches_the_disk() -> None:
    judged = [name for name in SOURCES if name not in rules.DISK_ALLOWED]
    assert_none(source_problems(judged, rules.disk_problems))


def test_what_may_touch_the_disk_does() -> None:
    idle = [
        name
        for name in rules.DISK_ALLOWED
        if not (ROOT / name).exists() or not list(rules.disk_problems((ROOT / name).read_text()))
    ]
    assert not idle, "take them from the list of those that may touch the disk"


def test_no_source_prints() -> None:
    assert_none(source_problems(SOURCES, rules.print_problems))


def test_no_file_names_a_place_on_a_machine() -> None:
    texts = {name: text_of(name) for name in TRACKED}
    assert_none(
        f"{name}: {problem}"
        for name, text in texts.items()
        if text is not None
        for problem in rules.machine_problems(text)
    )


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("x = 1\n" * 501, "501 lines"),
        ("x = '" + "x" * 95 + "'", "line 1: 101 columns"),
        ("def f():\n" + "    x = 1\n" * 60, "line 1: f has 61 lines"),
        ("class C:\n    async def f():\n" + "        x = 1\n" * 60, "line 2: f has 61 lines"),
    ],
)
def test_what_is_too_long_is_found(source: str, problem: str) -> None:
    assert list(rules.size_problems(source)) == [problem]


def test_what_is_just_short_enough_is_not_found() -> None:
    function = "def f():\n" + "    x = 1\n" * 59
    assert not list(rules.size_problems(function + "x = 1\n" * 439 + "x" * 100))


@pytest.mark.parametrize(
    ("path", "source", "word"),
    [
        ("storage/utils.py", "", "utils"),
        ("storage/file_helper.py", "", "helper"),
        ("storage/misc/files.py", "", "misc"),
        ("a.py", "class LogManager: ...", "manager"),
        ("a.py", "class GRPCInfo: ...", "info"),
        ("a.py", "class C:\n    def read_data(self): ...", "data"),
        ("a.py", "async def _info(): ...", "info"),
    ],
)
def test_a_name_that_says_nothing_is_found(path: str, source: str, word: str) -> None:
    problems = list(rules.name_problems(path, source))
    assert len(problems) == 1
    assert problems[0].endswith(f"says {word!r}")


@pytest.mark.parametrize(
    "source",
    [
        "def metadata(): ...",
        "def datasync(): ...",
        "class Servicer:\n    def GetServerInfo(self): ...",
        "class ServerInfo: ...",
        "def get_server_info(): ...",
        "def test_a_data_folder_is_locked(): ...",
        "data = 1",
    ],
)
def test_other_names_are_not_found(source: str) -> None:
    assert not list(rules.name_problems("storage/files.py", source))


@pytest.mark.parametrize(
    ("test", "count", "problem"),
    [
        ("tests/unit/storage/disk/test_{}.py", 20, None),
        ("tests/unit/storage/disk/test_{}.py", 21, "tests/unit/storage/disk has 21 files"),
        ("tests/unit/storage/test_{}.py", 21, "tests/unit/storage has 21 files"),
        ("tests/unit/storage/disk/deeper/test_{}.py", 1, None),
        (
            "tests/unit/storage/files/test_{}.py",
            1,
            "tests/unit/storage/files: storage has no room files",
        ),
        ("tests/unit/benchmarks/files/test_{}.py", 1, None),
        ("tests/sim/test_{}.py", 21, None),
    ],
)
def test_a_test_without_a_room_is_found(test: str, count: int, problem: str | None) -> None:
    tests = [test.format(number) for number in range(count)]
    problems = list(rules.room_problems([*tests, "storage/offsetd_storage/disk/files.py"]))
    assert problems == ([problem] if problem else [])


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "os.fsync(descriptor)",
        "os.path.exists(path)",
        "import shutil",
        "import mmap as m",
        "from os import rename",
        "from tempfile import mkdtemp",
        "path.read_text()",
        "path.write_bytes(content)",
        "path.read_bytes()",
        "path.exists()",
        "(folder / name).unlink()",
        "path.rename(other)",
        "path.open('rb')",
        "path.open()",
        "array.tofile(path)",
        "np.memmap(path)",
    ],
)
def test_a_way_to_the_disk_is_found(source: str) -> None:
    assert len(list(rules.disk_problems(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "files.open(path)",
        "files.open(path, create=True)",
        "LogStore.open(files, folder)",
        "files.read_bytes(path)",
        "files.exists(path)",
        "files.unlink(path)",
        "files.rename(source, target)",
        "os.environ.get('X')",
        "os.getpid()",
        "import os",
        "from pathlib import Path",
        "text.replace('a', 'b')",
    ],
)
def test_the_way_through_the_door_is_not_found(source: str) -> None:
    assert not list(rules.disk_problems(source))


def test_a_print_is_found_and_its_likes_are_not() -> None:
    assert list(rules.print_problems("if x:\n    print(x)")) == ["line 2: calls print"]
    assert not list(rules.print_problems("console.print(x)\nfingerprint(x)"))


@pytest.mark.parametrize("folder", ["work", "root", "tmp"])
def test_a_place_on_a_machine_is_found(folder: str) -> None:
    place = f"/{folder}/x"
    for line in [place, f"cd {place}", f'"{place}/y"', f"=({place})"]:
        assert len(list(rules.machine_problems(line))) == 1
    for line in [f"example.org{place}", f".{place}", f"~{place}", f"/{folder}x/y", f"/{folder}"]:
        assert not list(rules.machine_problems(line))


def test_documents_install_from_what_is_there() -> None:
    """offsetd is on no package index."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    names_an_index = re.compile(r"pip (install|download)[^`\n]*(?<![/\w-])offsetd(\[|\s|$|')")
    assert names_an_index.search("pip install 'offsetd[spark]'")
    assert names_an_index.search("pip download --no-deps offsetd")
    assert not [page.name for page in pages if names_an_index.search(page.read_text())]

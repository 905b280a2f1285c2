"""The map of rooms in ARCHITECTURE.md, and the tree, agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "storage/offsetd_storage",
    "coordinator/offsetd_coordinator",
    "clients/offsetd_clients",
    "pipeline/offsetd_pipeline",
)
MODULES_MAX = 20  # In a folder.
MAP_LINES_MAX = 50  # One screen.
ROW = re.compile(r"^\| ([a-z]+) \| (.+) \|$", re.MULTILINE)
ROOM = re.compile(r"(?:^|; )`([a-z_]+)/` ")
NAMED_FILE = re.compile(r"`([a-z_]+/[a-z_/]+\.py)`")


def the_map(text: str) -> str:
    """The section that names the packages and their rooms."""
    _, _, behind = text.partition("\n## The map\n")
    return behind.partition("\n## ")[0]


def mapped_rooms(text: str, package: str) -> list[str]:
    """The rooms in a package's rows of the map, in their order. `package` is a path."""
    rows = ROW.findall(the_map(text))
    name = package.partition("/")[0]
    return [room for first, rooms in rows if first == name for room in ROOM.findall(rooms)]


def rooms_in(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_lists_each_room_once_and_no_other(package: str) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert sorted(mapped_rooms(text, package)) == rooms_in(ROOT / package)


def test_files_that_the_page_names_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = NAMED_FILE.findall(text)
    assert named
    missing = [name for name in named if not any(list((ROOT / p).glob(name)) for p in PACKAGES)]
    assert missing == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_is_wide(package: str) -> None:
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}
    wide = {str(each): len(list(each.glob("*.py"))) - 1 for each in folders}
    assert {name: count for name, count in wide.items() if count > MODULES_MAX} == {}


def test_no_module_of_the_two_large_packages_has_the_name_of_another() -> None:
    names: dict[str, list[str]] = {}
    for package in PACKAGES[:2]:
        for path in (ROOT / package).rglob("*.py"):
            if path.stem not in ("__init__", "errors"):  # Each package has errors of its own.
                names.setdefault(path.stem, []).append(str(path))
    assert {name: paths for name, paths in names.items() if len(paths) > 1} == {}


def test_rooms_are_read_of_their_own_rows_only() -> None:
    rows = "| p | `a/` one, of `x`; `b/` two |\n| q | `c/` no |\n| p | `d/` three |\n"
    text = f"\n## The map\n\n| package | rooms |\n|---|---|\n{rows}\n## Threads\n| p | `e/` no |\n"
    assert mapped_rooms(text, "p/package") == ["a", "b", "d"]
    assert mapped_rooms(text, "q/package") == ["c"]


def test_the_map_is_one_screen() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert 0 < len(the_map(text).splitlines()) <= MAP_LINES_MAX


@pytest.mark.parametrize("package", PACKAGES[:2])
def test_the_map_lists_rooms_in_the_order_of_their_imports(package: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [layers] = [
        each["layers"]
        for each in contracts["contracts"]
        if each.get("exhaustive") and each["containers"] == [PurePath(package).name]
    ]
    lowest_first = [room.strip() for layer in reversed(layers) for room in layer.split(":")]
    rooms = mapped_rooms((ROOT / "ARCHITECTURE.md").read_text(), package)
    assert rooms == [each for each in lowest_first if each in rooms]

"""The map of rooms in ARCHITECTURE.md, and the tree, agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "storage/offsetd_storage",
    "coordinator/offsetd_coordinator",
    "clients/offsetd_clients",
    "pipeline/offsetd_pipeline",
)
MODULES_MAX = 20  # In a folder.
ROOM = re.compile(r"^\| `([a-z_]+)/` \|", re.MULTILINE)
NAMED_FILE = re.compile(r"`([a-z_]+/[a-z_/]+\.py)`")


def mapped_rooms(text: str, package: str) -> list[str]:
    """The rooms that the table of a package lists."""
    _, _, behind = text.partition(f"### {package}\n")
    section, _, _ = behind.partition("\n#")
    return ROOM.findall(section)


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


def test_rooms_are_read_of_their_own_section_only() -> None:
    text = "### p\n\n| room |\n|---|\n| `a/` | one |\n| `b/` | two |\n\n### q\n\n| `c/` | no |\n"
    assert mapped_rooms(text, "p") == ["a", "b"]
    assert mapped_rooms(text, "q") == ["c"]

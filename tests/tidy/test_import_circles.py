"""No modules of a package import one another in a circle, types included."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidy.import_graph import circles, import_graph, shortest_walk

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "storage/offsetd_storage",
    "coordinator/offsetd_coordinator",
    "clients/offsetd_clients",
    "pipeline/offsetd_pipeline",
)

# By package: circles that are not cut yet. A circle that is cut, or gets smaller, changes here.
KNOWN: dict[str, list[tuple[str, ...]]] = {}


def circle_problems(package: Path, known: list[tuple[str, ...]]) -> list[str]:
    """The circles of a package that are not in a list, and those of the list that are gone.

    `known` names modules as they are named inside the package.
    """
    graph = import_graph(package)
    found = circles(graph)
    listed = [tuple(f"{package.name}.{module}" for module in circle) for circle in known]
    return [
        f"a circle of {', '.join(circle)}: {' -> '.join(shortest_walk(graph, circle[0]))}"
        for circle in found
        if circle not in listed
    ] + [
        f"no longer a circle, take it from the list: {', '.join(circle)}"
        for circle in listed
        if circle not in found
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_one_another_in_a_circle(package: str) -> None:
    folder = ROOT / package
    assert circle_problems(folder, KNOWN.get(folder.name, [])) == []


def a_package(folder: Path, sources: dict[str, str]) -> Path:
    """A package `made` of these sources, by their paths in it."""
    for name, source in sources.items():
        path = folder / "made" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder / "made"


IN_A_FUNCTION = "def f():\n    from made.a import x\n"
FOR_A_TYPE = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.a import x\n"


@pytest.mark.parametrize(
    "back",
    [
        "import made.a\n",
        "from made import a\n",
        "from made.a import x\n",
        "from . import a\n",
        "from .a import x\n",
        IN_A_FUNCTION,
        FOR_A_TYPE,
    ],
)
def test_an_import_back_is_a_circle_however_it_is_written(tmp_path: Path, back: str) -> None:
    package = a_package(tmp_path, {"a.py": "from made.b import y\n", "b.py": back})
    assert circle_problems(package, []) == [
        "a circle of made.a, made.b: made.a -> made.b -> made.a"
    ]


def test_a_circle_through_others_names_all_its_modules_and_no_other(tmp_path: Path) -> None:
    package = a_package(
        tmp_path,
        {
            "start.py": "import made.low.a\n",
            "low/a.py": "import made.low.b\n",
            "low/b.py": "from made.low import c\nimport made.end\n",
            "low/c.py": "from .a import x\n",
            "end.py": "import os\n",
        },
    )
    assert circles(import_graph(package)) == [("made.low.a", "made.low.b", "made.low.c")]
    walk = "made.low.a -> made.low.b -> made.low.c -> made.low.a"
    assert circle_problems(package, []) == [
        f"a circle of made.low.a, made.low.b, made.low.c: {walk}"
    ]


def test_a_package_that_passes_on_names_is_part_of_a_circle_only_if_imported(
    tmp_path: Path,
) -> None:
    sources = {"__init__.py": "from made.a import x\n", "a.py": "import made.b\n", "b.py": ""}
    assert circle_problems(a_package(tmp_path, sources), []) == []
    again = a_package(tmp_path, {"b.py": "from made import x\n"})
    assert circles(import_graph(again)) == [("made", "made.a", "made.b")]


def test_two_circles_are_two(tmp_path: Path) -> None:
    sources = {
        "a.py": "import made.b\n",
        "b.py": "import made.a\nimport made.c\n",
        "c.py": "import made.d\n",
        "d.py": "import made.c\n",
    }
    package = a_package(tmp_path, sources)
    assert circles(import_graph(package)) == [("made.a", "made.b"), ("made.c", "made.d")]
    assert circle_problems(package, [("a", "b"), ("c", "d")]) == []


def test_a_listed_circle_that_is_cut_or_shorter_has_to_leave_the_list(tmp_path: Path) -> None:
    package = a_package(tmp_path, {"a.py": "import made.b\n", "b.py": ""})
    gone = "no longer a circle, take it from the list: made.a, made.b"
    assert circle_problems(package, [("a", "b")]) == [gone]
    longer = a_package(tmp_path, {"b.py": "import made.a\n", "c.py": ""})
    assert circle_problems(longer, [("a", "b", "c")]) == [
        "a circle of made.a, made.b: made.a -> made.b -> made.a",
        "no longer a circle, take it from the list: made.a, made.b, made.c",
    ]

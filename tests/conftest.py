"""What all tests share: Hypothesis profiles, parts, order, kernels warm before the first test."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import hypothesis
import parts
import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Chosen with HYPOTHESIS_PROFILE, the long one also by the nightly run. A failure prints how to run
# the same example again. Only the nightly run draws other examples each time.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile(
    "quick", deadline=None, print_blob=True, derandomize=True, max_examples=20
)
hypothesis.settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=2000)
# For a planted bug: that it is noticed is enough.
hypothesis.settings.register_profile(
    "unshrunk",
    deadline=None,
    derandomize=True,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)
_USUAL_PROFILE = "nightly" if os.environ.get("OFFSETD_NIGHTLY") else "default"
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _USUAL_PROFILE))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", choices=parts.PARTS, default=parts.ALL, help="which part of the tests to run"
    )
    parser.addoption(
        "--kernels-on-demand",
        action="store_true",
        help="compile a kernel when it is first called, for a run that needs few of them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Named files and folders are run whole. Workers of xdist get what is decided here."""
    is_worker = hasattr(config, "workerinput")
    if not is_worker and config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        config.option.part = parts.ALL


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The short part does not even import what it leaves out."""
    return (config.option.part == parts.SHORT and parts.is_rest_path(collection_path)) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the part. Long files come first, the longest first: so no worker is left with one.

    Workers of xdist keep this order where they may not reorder.
    """
    if config.option.part != parts.ALL:
        wants_rest = config.option.part == parts.REST
        left_out = [item for item in items if parts.is_rest(item) != wants_rest]
        items[:] = [item for item in items if parts.is_rest(item) == wants_rest]
        config.hook.pytest_deselected(items=left_out)
    items.sort(key=minutes_of_its_file, reverse=True)
    if os.environ.get("OFFSETD_TEST_BROKERS"):
        skip = pytest.mark.skip(reason="about one server, and here is a cluster of three nodes")
        for item in items:
            if item.get_closest_marker("single_server"):
                item.add_marker(skip)


def minutes_of_its_file(item: pytest.Item) -> float:
    """What the marker `long` says, or 0."""
    long = item.get_closest_marker("long")
    return 0 if long is None else long.kwargs["minutes"]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """What was left out, and how to run it."""
    if config.option.part == parts.SHORT:
        terminalreporter.section("left out of `make test`")
        terminalreporter.write_line("\n".join(parts.summary_lines()))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile or load the kernels once, if a collected test imports any, and say so."""
    registry = sys.modules.get("offsetd_storage.kernels.registry")
    option = session.config.option
    if registry is None or option.collectonly or option.kernels_on_demand:
        return
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    is_warm = registry.is_warm_on_disk()

    def progress(done: int, total: int, name: str) -> None:
        if terminal is not None and not is_warm and name:
            terminal.write_line(f"kernel {done + 1} of {total}: {name}")

    registry.warm(progress)

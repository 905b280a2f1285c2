"""What all tests share: profiles of Hypothesis, their order, kernels warm before the first test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest
from slow_files import SLOW_FILES

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow files come first; workers of xdist keep that where they may not reorder."""
    folder = Path(__file__).parent
    places = {folder / name: place for place, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile or load the kernels once, if a collected test imports any, and say so."""
    registry = sys.modules.get("offsetd_storage.kernels.registry")
    if registry is None or session.config.option.collectonly:
        return
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    is_warm = registry.is_warm_on_disk()

    def progress(done: int, total: int, name: str) -> None:
        if terminal is not None and not is_warm and name:
            terminal.write_line(f"kernel {done + 1} of {total}: {name}")

    registry.warm(progress)

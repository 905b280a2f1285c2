"""What all tests share: profiles of Hypothesis, and kernels that are warm before the first test."""

from __future__ import annotations

import os
import sys

import hypothesis
import pytest

# Chosen with HYPOTHESIS_PROFILE. A failure prints how to run the same example again.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("quick", deadline=None, print_blob=True, max_examples=20)
hypothesis.settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=5000)
# For a planted bug: that it is noticed is enough.
hypothesis.settings.register_profile(
    "unshrunk", deadline=None, phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate)
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


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

"""What `offsetd serve` does before it serves. Its life is tested on real processes."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
from offsetd_coordinator.commands.serve import _nothing_collected

FAILING_START = """
import gc
from offsetd_coordinator.commands import kernels, serve
from offsetd_coordinator.settings_sources import load_settings

def warm_kernels(terminal, **later):
    print(gc.isenabled())
    raise OSError("no kernels")

kernels.warm_kernels = warm_kernels
try:
    serve._run(load_settings(), None)
except OSError as error:
    print(error, gc.isenabled(), gc.get_freeze_count())
"""


def test_garbage_is_looked_for_again_when_a_start_has_failed() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FAILING_START], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False\nno kernels True 0\n"


def test_what_was_made_while_nothing_was_collected_is_passed_over_later() -> None:
    try:
        with _nothing_collected():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_an_error_leaves_nothing_frozen_and_collections_as_they_were() -> None:
    with pytest.raises(OSError, match="no disk"), _nothing_collected():
        raise OSError("no disk")
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0

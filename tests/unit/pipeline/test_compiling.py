"""The first reading on a machine says that it waits for kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_pipeline import compile_notice
from offsetd_storage.kernels.cache import KernelCache

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _unsaid() -> Iterator[None]:
    compile_notice.say_if_kernels_compile.cache_clear()
    yield
    compile_notice.say_if_kernels_compile.cache_clear()


def test_it_is_said_once_where_kernels_are_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(KernelCache, "holds_kernel", lambda _: False)
    compile_notice.say_if_kernels_compile()
    compile_notice.say_if_kernels_compile()
    assert capsys.readouterr().err.count("offsetd: compiling kernels, once") == 1


def test_nothing_is_said_where_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(KernelCache, "holds_kernel", lambda _: True)
    compile_notice.say_if_kernels_compile()
    assert capsys.readouterr().err == ""

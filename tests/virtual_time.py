"""An event loop whose time passes at once: nobody sleeps, and whoever waits longest comes last."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would wait, time goes on instead."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing will ever happen again"
        # Whatever is done takes a little: who waits for less than floats can tell goes on, too.
        self.now_s += max(timeout, 1e-6)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time begins at 0, and hardly passes while anything runs."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds."""
        return self._jumping.now_s


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs to the end of `main`, in virtual time; what it left running is cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)

"""Limits of work in one turn of the event loop, so that one caller does not hold up the others.

The rule for all work that grows with a group: one turn handles at most `SLICE_ROWS` of its offsets,
or `SLICE_BLOCKS` blocks of the table; then `next_turn` lets others run. Python loops over offsets
use `counted_turns`. Longer work runs on a thread, in kernels that release the interpreter's lock,
or slice by slice.

A turn ends with a pause. A commit needs about five passes of the event loop and a flush; with only
one pass between two turns, it would wait for five turns.
"""

from __future__ import annotations

import asyncio
from typing import Final

SLICE_ROWS: Final = 4096
"""Offsets that are read, written or encoded at once. A group of no more is small."""
SLICE_BLOCKS: Final = 8192
"""Blocks of the table that are looked at at once, of whichever groups."""
REST_SECONDS: Final = 0.001
"""Between two turns: about as long as a commit takes."""


async def next_turn() -> None:
    """Lets other tasks run: all that are ready, and all that these wake during the pause."""
    await asyncio.sleep(REST_SECONDS)

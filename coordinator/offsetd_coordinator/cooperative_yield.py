"""How much is done in one turn of the event loop: what one caller asks for must not hold up others.

The rule for all work that grows with a group: at most `SLICE_ROWS` of its offsets, or
`SLICE_BLOCKS` blocks of the table, are dealt with in a turn; then `next_turn` lets the others in.
What Python does with each offset goes by `service.turns`. What takes longer runs on a thread, in
kernels that do not hold the interpreter's lock, or slice by slice.

A turn ends with a rest. A commit needs about five passes of the event loop and a flush, so one pass
between two turns would have it wait for five turns.
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
    """Lets others work: all that are ready, and all that these wake within the rest."""
    await asyncio.sleep(REST_SECONDS)

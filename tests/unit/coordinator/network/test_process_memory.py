"""A look at this process's memory sees it grow."""

from __future__ import annotations

import mmap

from offsetd_coordinator.network.process_memory import ResidentMemory

_GROWTH_BYTES = 64 << 20


def test_what_is_written_to_is_seen_again_and_again() -> None:
    memory = ResidentMemory()
    before = memory.bytes()
    assert before > 0
    with mmap.mmap(-1, _GROWTH_BYTES) as fresh:  # Not what was freed, and counts already.
        fresh.write(b"x" * _GROWTH_BYTES)
        assert memory.bytes() - before > _GROWTH_BYTES // 2

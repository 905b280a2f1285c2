"""What was committed at some time in the past, as far as the log has kept it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.errors import HistoryUnavailable

if TYPE_CHECKING:
    from offsetd_coordinator.offset_changes import Partition
    from offsetd_coordinator.runtime import Runtime


async def offsets_at(runtime: Runtime, group_id: bytes, time_ms: int) -> dict[Partition, int]:
    """The offsets that a group had at `time_ms`, wall time.

    Raises HistoryUnavailable where that is not known.
    """
    del runtime, time_ms
    raise HistoryUnavailable(
        "what group {group!r} had committed in the past is not known", group=group_id
    )

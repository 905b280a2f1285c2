"""A large change makes room in the table before it writes: no slice of it grows the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetd.v1 import group_service_pb2
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS
from offsetd_coordinator.kernels.columns import ENTRY_COLUMNS, Table
from offsetd_coordinator.services.reset_calls import ResetCalls
from offsetd_coordinator.state import anonymous_memory, offset_table
from serving_nodes import METADATA_UNITS_MAX, serving_node

if TYPE_CHECKING:
    import pytest

OFFSETS = SLICE_ROWS + 1000


async def test_no_turn_of_a_change_grows_the_array_of_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grown: list[tuple[int, ...]] = []

    def note_growth(array: Any, rows: int) -> Any:
        grown.append(array.shape)
        return anonymous_memory.grown(array, rows)

    async with serving_node() as serving:
        await serving.commit("source", 1, partitions=OFFSETS)
        table = serving.runtime.shard_of(b"target")[1].offsets
        rows = len(Table(*table.arrays).entries)
        monkeypatch.setattr(offset_table, "grown", note_growth)
        request = group_service_pb2.CloneGroupRequest(
            source_group_id="source", target_group_id="target"
        )
        await ResetCalls(serving.node, None, metadata_units_max=METADATA_UNITS_MAX).clone_group(
            request.SerializeToString()
        )
        assert table.count(b"target") == OFFSETS
        assert len(Table(*table.arrays).entries) > rows
    assert all(shape[1:] != (ENTRY_COLUMNS,) for shape in grown)

"""Rows of groups, from their newest records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from offsetd_pipeline.folder_plan import Piece, plan_folder
from offsetd_pipeline.folder_tables import FolderTable
from offsetd_pipeline.read_options import OnDamage
from offsetd_pipeline.selection import Selection
from offsetd_pipeline.tables import Mode
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.keys import GroupKey, encode_key
from offsets_logs import write_log

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema([("group", pa.string()), ("state_time", pa.timestamp("us", tz="UTC"))])


@pytest.mark.parametrize(
    ("timestamp_ms", "time"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        ((1 << 63) - 1, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        (-1, None),
    ],
)
def test_a_state_has_its_time_whatever_the_record_says(
    timestamp_ms: int, time: datetime | None, tmp_path: Path
) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, current_state_timestamp_ms=timestamp_ms
    )
    record = Record(
        key=encode_key(GroupKey(group="g")), value=value.encode(), offset=0, timestamp_ms=1
    )
    write_log(tmp_path, [encode_batch([record], base_offset=0)])
    files = OsFiles()
    _, [log] = plan_folder(files, tmp_path, is_wanted=lambda _: True)
    table = FolderTable(files, Mode.GROUPS, COLUMNS, Selection(), OnDamage.FAIL)
    rows = [row for each in table.batches(Piece(log, 0, 1)) for row in each.to_pylist()]
    assert rows == [{"group": "g", "state_time": time}]

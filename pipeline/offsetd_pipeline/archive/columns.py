"""The columns of an archive's files, except `dt` and `log_partition`, which are in folder names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import DateType, IntegerType, StructField, StructType, TimestampType

from offsetd_pipeline.arrow_columns import COLUMNS
from offsetd_pipeline.tables import TABLES, Column, Mode, arrow_schema
from offsetd_pipeline.transactions import WORDS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from offsetd_pipeline.arrow_columns import ChosenRows

    Numbers = npt.NDArray[np.int64]

VANISHED: Final = "vanished"
"""An additional kind, not in `history`: a deletion that was compacted before it was archived."""
TRANSACTION_TIME: Final = Column(
    "transaction_time", TimestampType(), "when its transaction ended, ms; null: outside of any"
)
_MICROSECONDS: Final = 1000  # Microseconds in a millisecond.


_NAMES: Final = (
    "log_offset",
    "timestamp",
    "kind",
    "transaction",
    TRANSACTION_TIME.name,
    "producer_id",
    "group",
    "topic",
    "partition",
    "offset",
    "leader_epoch",
    "metadata",
    "commit_time",
    "expire_time",
)
"""The columns of format version 1."""
_KNOWN: Final = {each.name: each for each in (*TABLES[Mode.HISTORY], TRANSACTION_TIME)}
ARCHIVE_COLUMNS: Final = tuple(_KNOWN[name] for name in _NAMES)
FILE_SCHEMA: Final[pa.Schema] = arrow_schema(
    StructType([StructField(each.name, each.type) for each in ARCHIVE_COLUMNS])
)
SPARK_SCHEMA: Final = StructType(
    [
        *(
            StructField(each.name, each.type, metadata={"comment": each.meaning})
            for each in ARCHIVE_COLUMNS
        ),
        StructField("dt", DateType(), metadata={"comment": "UTC day of the timestamp"}),
        StructField("log_partition", IntegerType()),
    ]
)


def archived_batch(rows: ChosenRows, outcomes: Numbers, end_times: Numbers) -> pa.RecordBatch:
    """Rows in the format of the files. `outcomes` and `end_times` are indexed by row number."""
    own = {
        "transaction": lambda: rows.words(outcomes[rows.chosen], WORDS),
        "transaction_time": lambda: _times(end_times[rows.chosen]),
    }
    arrays = [own[name]() if name in own else COLUMNS[name](rows) for name in FILE_SCHEMA.names]
    return pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)


def _times(timestamps_ms: Numbers) -> pa.Array:
    return pa.array(
        timestamps_ms * _MICROSECONDS,
        FILE_SCHEMA.field("transaction_time").type,
        mask=timestamps_ms < 0,
    )

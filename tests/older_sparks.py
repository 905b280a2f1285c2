"""The source as Spark 4.0 and 4.1 see it: they ask for no more than this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetd_pipeline.source import OffsetdSource
from offsetd_pipeline.streams.reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "offsetd_before_admission_control"


class ReaderBeforeAdmissionControl(StreamReader):
    """Its `latestOffset` takes nothing, by which Spark knows."""

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        return super().latestOffset()


class SourceBeforeAdmissionControl(OffsetdSource):
    """Its streams are read by the older API."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        reader: Any = super().streamReader(schema)
        return ReaderBeforeAdmissionControl(reader._options, schema)

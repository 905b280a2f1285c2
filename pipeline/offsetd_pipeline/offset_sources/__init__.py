"""Sources of offsets, with one way to name them and one form of table: folders, servers, files."""

from offsetd_pipeline.offset_sources.opening import (
    OffsetTable,
    SourceOptions,
    check_answers,
    opened_source,
    write_bad_lines,
)
from offsetd_pipeline.offset_sources.source_kind import SourceKind
from offsetd_pipeline.offset_sources.source_names import (
    BadSource,
    NamedSource,
    named_source,
)

__all__ = [
    "BadSource",
    "NamedSource",
    "OffsetTable",
    "SourceKind",
    "SourceOptions",
    "check_answers",
    "named_source",
    "opened_source",
    "write_bad_lines",
]

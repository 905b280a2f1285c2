"""The tasks' part of a write: it checks the rows, and packs them for the driver.

It sends nothing to the server. So a task may fail, be retried or run twice without effect on
others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from offsetd_pipeline.arrow_columns import TIMESTAMP_MS_MAX
from offsetd_pipeline.writing.columns import COLUMNS, RANK, RANK_TYPE

if TYPE_CHECKING:
    import numpy.typing as npt

    from offsetd_pipeline.writing.columns import WrittenColumns

    Mask = npt.NDArray[np.bool_]

GROUP_BYTES_MAX: Final = 32_767
TOPIC_UNITS_MAX: Final = 249
METADATA_BYTES_MAX: Final = 32_767
_RANK_MIN: Final = -(1 << 63)
_INT32_MAX: Final = (1 << 31) - 1

REJECTION: Final = pa.schema(
    [
        ("reason", pa.string()),
        ("message", pa.string()),
        ("stored_offset", pa.int64()),
        ("stored_revision", pa.int64()),
    ]
)
"""The extra columns of a rejected row: the reason, and the conflicting stored offset."""

_NAME_REASONS: Final = {
    "group": "INVALID_GROUP_ID",
    "topic": "INVALID_TOPIC",
    "metadata": "INVALID_METADATA",
}
_NUMBER_REASONS: Final = {
    "partition": "INVALID_PARTITION",
    "offset": "INVALID_OFFSET",
    "leader_epoch": "INVALID_LEADER_EPOCH",
    "expected_offset": "INVALID_PRECONDITION",
    "expected_revision": "INVALID_PRECONDITION",
    "end_offset": "INVALID_OFFSET",
}


@attrs.frozen(kw_only=True)
class PackedRows(WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """A task's rows as Arrow streams; None if there are none.

    `rejected` has the columns of `REJECTION` too. `query_id` is that of a stream.
    """

    rows: bytes | None
    rejected: bytes | None
    query_id: str | None = None


class TaskRows:
    """The rows of a task."""

    def __init__(self, columns: WrittenColumns) -> None:
        self._columns = columns
        self._good: list[pa.Table] = []
        self._rejected: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows, each as good or as rejected."""
        findings = _Findings(batch.num_rows)
        arrays: dict[str, Any] = {}
        for name, place in self._columns.places.items():
            values = batch.column(place)
            if name in _NAME_REASONS:
                arrays[name] = _checked_names(name, values, findings)
            elif name in _NUMBER_REASONS:
                arrays[name] = _checked_numbers(name, values, findings)
            else:
                arrays[name] = _checked_times(values, findings)
        if "expected_offset" in arrays and "expected_revision" in arrays:
            both = pc.and_(
                arrays["expected_offset"].is_valid(), arrays["expected_revision"].is_valid()
            )
            findings.note(_mask(both), "INVALID_PRECONDITION", "two expectations of one row")
        if self._columns.rank_place is not None:
            arrays[RANK] = _ranks(batch.column(self._columns.rank_place))
        table = pa.table(arrays)
        is_good = findings.which == 0
        if is_good.all():
            self._good.append(table.cast(self._columns.packed_schema))
            return
        self._good.append(table.filter(pa.array(is_good)).cast(self._columns.packed_schema))
        rejected = table.filter(pa.array(~is_good)).select(self._columns.places)
        rejected = rejected.cast(self._columns.given_schema)
        self._rejected.append(findings.described(rejected))

    def packed(self, query_id: str | None = None) -> PackedRows:
        """All rows, packed."""
        return PackedRows(
            rows=_packed(self._good), rejected=_packed(self._rejected), query_id=query_id
        )


class _Findings:
    """The problems of a batch's rows: for each row, the first problem that was found."""

    def __init__(self, count: int) -> None:
        self.which = np.zeros(count, np.int32)  # 0 means no problem.
        self._problems: list[tuple[str, str]] = []

    def note(self, mask: Mask, reason: str, message: str) -> None:
        """Notes a problem of the rows in a mask."""
        if mask.any():
            self._problems.append((reason, message))
            self.which[mask & (self.which == 0)] = len(self._problems)

    def described(self, rejected: pa.Table) -> pa.Table:
        """The rejected rows, with their problems."""
        found = [self._problems[each - 1] for each in self.which[self.which > 0]]
        nothing = pa.nulls(len(found), pa.int64())
        more = [[reason for reason, _ in found], [text for _, text in found], nothing, nothing]
        for field, values in zip(REJECTION, more, strict=True):
            rejected = rejected.append_column(field, pa.array(values, field.type))
        return rejected


def unpacked(packed: bytes) -> pa.Table:
    """The rows of an Arrow stream."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


def _packed(tables: list[pa.Table]) -> bytes | None:
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks() if tables else None
    if table is None or not table.num_rows:
        return None
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _mask(values: Any) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask


def _checked_numbers(name: str, values: Any, findings: _Findings) -> Any:
    values = values.cast(pa.int64())
    reason = _NUMBER_REASONS[name]
    if values.null_count and name in ("partition", "offset"):
        findings.note(_mask(values.is_null()), reason, f"{name} is null")
    numbers = pc.fill_null(values, 0).to_numpy()
    findings.note(numbers < 0, reason, f"{name} is below 0")
    if COLUMNS[name].packed == pa.int32():
        findings.note(numbers > _INT32_MAX, reason, f"{name} is above {_INT32_MAX}")
    return values


def _ranks(values: Any) -> Any:
    """Whole numbers, or times, as numbers; a null comes before all others."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", tz=values.type.tz))
    return pc.fill_null(values.cast(RANK_TYPE), _RANK_MIN)


def _checked_times(values: Any, findings: _Findings) -> Any:
    micros = values.cast(COLUMNS["commit_time"].packed).cast(pa.int64())
    before = pc.fill_null(pc.less(micros, 0), False)
    findings.note(_mask(before), "INVALID_COMMIT_TIME", "commit_time is before 1970")
    # The server replaces any future time with the present time. But the rows are sent as Python
    # datetimes, which have a largest value.
    micros = pc.min_element_wise(micros, TIMESTAMP_MS_MAX * 1000, skip_nulls=False)
    return micros.cast(COLUMNS["commit_time"].packed)


def _checked_names(name: str, values: Any, findings: _Findings) -> Any:
    """The dictionary-encoded names. Invalid text is replaced by valid text."""
    if values.null_count and name != "metadata":
        findings.note(_mask(values.is_null()), _NAME_REASONS[name], f"{name} is null")
    if _is_plain(name, values):
        return values.cast(pa.large_string()).dictionary_encode()
    encoded = _as_bytes(values).dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy()
    texts: list[str] = []
    by_problem: dict[str, list[int]] = {}
    for code, content in enumerate(encoded.dictionary.to_pylist()):
        text, problem = _judged(name, content)
        texts.append(text)
        if problem is not None:
            by_problem.setdefault(problem, []).append(code)
    for problem, wrong in by_problem.items():
        findings.note(np.isin(codes, wrong), _NAME_REASONS[name], f"{name} {problem}")
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.large_string()))


def _as_bytes(values: Any) -> Any:
    is_large = values.type == pa.large_string()
    return values.view(pa.large_binary() if is_large else pa.binary())


def _is_plain(name: str, values: Any) -> bool:
    """Whether the lengths of the values alone show that none has a problem."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    lengths = pc.min_max(pc.binary_length(values))
    shortest, longest = lengths["min"].as_py(), lengths["max"].as_py()
    if longest is None:
        return True
    most = TOPIC_UNITS_MAX if name == "topic" else GROUP_BYTES_MAX
    return bool(longest <= most and (shortest > 0 or name == "metadata"))


def _judged(name: str, content: bytes) -> tuple[str, str | None]:
    """Returns a name as text, and its problem by the server's rules for names."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content.decode(errors="replace"), "is not UTF-8"
    if not content and name != "metadata":
        return text, "is empty"
    if name == "topic":
        return text, f"has more than {TOPIC_UNITS_MAX} UTF-16 units" if (
            utf16_units(text) > TOPIC_UNITS_MAX
        ) else None
    most = GROUP_BYTES_MAX if name == "group" else METADATA_BYTES_MAX
    return text, f"has more than {most} bytes of UTF-8" if len(content) > most else None


def utf16_units(text: str) -> int:
    """The length of a topic's name as Kafka counts it."""
    return len(text.encode("utf-16-le")) // 2

"""Reads and writes files of offsets. Only offsetd's own format keeps every field.

The functions do no I/O: they turn offsets into text, and bytes into offsets. Lines end with a
newline. A carriage return before it, empty lines and a byte order mark are ignored.
`docs/formats/offset-files.md` has examples.
"""

from __future__ import annotations

import csv
import enum
import io
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LINE_BYTES_MAX: Final = 1 << 20
DOCUMENT_BYTES_MAX: Final = 4 << 20
"""The limit for a JSON document, which is read as a whole."""

_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 19
_BYTE_ORDER_MARK: Final = "\ufeff"


class OffsetFormat(enum.IntEnum):
    """The format of a file; the numbers are those of `offsetd.v1.OffsetFormat`."""

    KAFKA_CSV = 1
    RPK = 2
    KAFKA_UTILS_JSON = 3
    JSONL = 4


NAMELESS: Final = frozenset((OffsetFormat.RPK,))
"""Formats that do not name the group."""
OF_ONE_GROUP: Final = frozenset((OffsetFormat.RPK, OffsetFormat.KAFKA_UTILS_JSON))


class FileOffset(NamedTuple):
    """An offset in a file. A number is -1 if the file has none; `group` is empty if it has none.

    The last two fields are conditions on the stored offset. Files that offsetd writes have neither.
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    revision: int = -1
    expected_revision: int = -1
    must_not_exist: bool = False


class Line(NamedTuple):
    """The offset of a line, or None and the reason why it cannot be read."""

    number: int
    offset: FileOffset | None
    problem: str = ""


class Unwritable(ValueError):
    """The format cannot represent this offset."""


class Unreadable(ValueError):
    """The file does not follow its format."""


# Writing.


def written(
    file_format: OffsetFormat, offsets: Iterable[FileOffset], *, names_group: bool
) -> Iterator[str]:
    """The text of all offsets, of one or more groups, piece by piece.

    With `names_group`, each line of a CSV file names its group. Without it, the file is for one
    group. Raises Unwritable.
    """
    match file_format:
        case OffsetFormat.KAFKA_CSV:
            return _csv_lines(offsets, names_group=names_group)
        case OffsetFormat.RPK:
            return map(_rpk_line, offsets)
        case OffsetFormat.KAFKA_UTILS_JSON:
            return _yelp_pieces(offsets)
        case OffsetFormat.JSONL:
            return map(_json_line, offsets)


def _csv_lines(offsets: Iterable[FileOffset], *, names_group: bool) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for each in offsets:
        for name in (each.group, each.topic):
            if "\r" in name or "\n" in name:
                raise Unwritable(f"{name!r} does not fit on one line")
        _refuse_marked(each.group if names_group else each.topic)
        cells = (each.topic, each.partition, each.offset)
        writer.writerow((each.group, *cells) if names_group else cells)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _rpk_line(each: FileOffset) -> str:
    if each.topic.split() != [each.topic]:
        raise Unwritable(f"topic {each.topic!r} has spaces, which separate its fields")
    _refuse_marked(each.topic)
    return f"{each.topic} {each.partition} {each.offset}\n"


def _refuse_marked(name: str) -> None:
    """Raises Unwritable if a name starts with a byte order mark, which the reader would ignore."""
    if name.startswith(_BYTE_ORDER_MARK):
        raise Unwritable(f"{name!r} begins with a byte order mark")


def _yelp_pieces(offsets: Iterable[FileOffset]) -> Iterator[str]:
    """The format of `kafka-consumer-manager offset_save`, topic by topic."""
    group: str | None = None
    topic: str | None = None
    for each in offsets:
        if group is None:
            yield f'{{"groupid": {_text(each.group)}, "offsets": {{'
        elif group != each.group:
            raise Unwritable("a file has the offsets of one group")
        if topic != each.topic or group is None:
            yield ("}, " if topic is not None else "") + f"{_text(each.topic)}: {{"
        else:
            yield ", "
        yield f'"{each.partition}": {each.offset}'
        group, topic = each.group, each.topic
    if group is not None:
        yield "}}}\n"


def _json_line(each: FileOffset) -> str:
    document = {
        "group": each.group,
        "topic": each.topic,
        "partition": each.partition,
        "offset": each.offset,
        "leader_epoch": _or_null(each.leader_epoch),
        "metadata": each.metadata,
        "commit_timestamp_ms": _or_null(each.commit_timestamp_ms),
        "expire_timestamp_ms": _or_null(each.expire_timestamp_ms),
        "revision": _or_null(each.revision),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def _or_null(value: int) -> int | None:
    return None if value < 0 else value


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# Reading.


class OffsetReader:
    """Takes a file piece by piece, and returns its lines. Call `end` at the file's end.

    Lines are numbered from 1. The offsets of a JSON document are all returned at its end, with
    line number 1.
    """

    def __init__(self, file_format: OffsetFormat) -> None:
        self._format = file_format
        self._rest = b""
        self._number = 0

    def feed(self, content: bytes) -> Iterator[Line]:
        """The lines that end in this piece. Raises Unreadable above the size limits."""
        if self._format is OffsetFormat.KAFKA_UTILS_JSON:
            self._rest += content
            if len(self._rest) > DOCUMENT_BYTES_MAX:
                raise Unreadable(f"a JSON document of more than {DOCUMENT_BYTES_MAX} bytes")
            return
        lines = (self._rest + content).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            yield from self._read(line)
        if len(self._rest) > LINE_BYTES_MAX:
            raise Unreadable(f"line {self._number + 1} has more than {LINE_BYTES_MAX} bytes")

    def end(self) -> Iterator[Line]:
        """The remaining offsets: those of a last line without a newline, or of the document."""
        if self._format is OffsetFormat.KAFKA_UTILS_JSON:
            yield from _yelp_offsets(self._rest)
        elif self._rest:
            yield from self._read(self._rest)
        self._rest = b""

    def _read(self, line: bytes) -> Iterator[Line]:
        self._number += 1
        told = read_line(self._format, self._number, line)
        if told is not None:
            yield told


def read_line(file_format: OffsetFormat, number: int, line: bytes) -> Line | None:
    """The contents of a line without its newline; None if it is empty. Not for JSON documents."""
    try:
        text = line.decode().removesuffix("\r")
        if number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        if not text.strip():
            return None
        return Line(number, _LINE_READERS[file_format](text))
    except UnicodeDecodeError:
        return Line(number, None, "not UTF-8")
    except Unreadable as error:
        return Line(number, None, str(error))


def _read_csv(text: str) -> FileOffset:
    try:
        [cells] = csv.reader([text], strict=True)
    except (csv.Error, ValueError) as error:
        raise Unreadable(f"no line of CSV: {error}") from error
    if len(cells) == 3:
        cells.insert(0, "")
    if len(cells) != 4:
        raise Unreadable("neither `topic,partition,offset` nor `group,topic,partition,offset`")
    group, topic, partition, offset = cells
    return FileOffset(group, topic, _partition(partition), _offset(offset))


def _read_rpk(text: str) -> FileOffset:
    fields = text.split()
    if len(fields) != 3:
        raise Unreadable("not a topic, a partition and an offset with spaces between")
    return FileOffset("", fields[0], _partition(fields[1]), _offset(fields[2]))


def _read_json_line(text: str) -> FileOffset:
    document = _loads(text)
    if not isinstance(document, dict):
        raise Unreadable("no JSON object")
    unknown = sorted(document.keys() - FileOffset._fields)
    if unknown:
        raise Unreadable(f"{unknown[0]!r} is not known")
    fields: dict[str, Any] = {}
    for name, read in _JSON_FIELDS.items():
        value = document.get(name)
        if value is not None:
            fields[name] = read(name, value)
        elif name not in FileOffset._field_defaults:
            raise Unreadable(f"{name!r} is missing")
    if fields.keys() >= {"expected_revision", "must_not_exist"}:
        raise Unreadable("an offset takes one precondition, not several")
    return FileOffset(**fields)


def _yelp_offsets(content: bytes) -> Iterator[Line]:
    try:
        document = _loads(content.decode().removeprefix(_BYTE_ORDER_MARK))
        group = document["groupid"]
        topics = document["offsets"]
        if not isinstance(group, str) or not isinstance(topics, dict):
            raise Unreadable("`groupid` is a text, `offsets` an object")  # noqa: TRY301
        found = [
            FileOffset(group, topic, _partition(partition), _whole("offset", offset, _INT64_MAX))
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        ]
    except UnicodeDecodeError:
        yield Line(1, None, "not UTF-8")
    except Unreadable as error:
        yield Line(1, None, str(error))
    except (KeyError, TypeError, AttributeError):
        yield Line(1, None, 'not {"groupid": …, "offsets": {topic: {partition: offset}}}')
    else:
        yield from (Line(1, each) for each in found)


def _loads(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Unreadable(f"no JSON, from column {error.colno} on") from error
    except RecursionError as error:
        raise Unreadable("JSON that cannot be read: it is nested too deep") from error
    except Unreadable:
        raise
    except ValueError as error:  # A number with more digits than Python converts.
        raise Unreadable("JSON that cannot be read: a number has too many digits") from error


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Unreadable(f"{name!r} is there twice")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise Unreadable(f"{name} is not JSON")


def _partition(text: str) -> int:
    return _number("partition", text, _INT32_MAX)


def _offset(text: str) -> int:
    return _number("offset", text, _INT64_MAX)


def _number(name: str, text: str, largest: int) -> int:
    """Kafka's CSV may have spaces around a number."""
    digits = text.strip(" \t")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        raise Unreadable(f"{name} {text!r} is not a whole number from 0 to {largest}")
    return _whole(name, int(digits), largest)


def _whole(name: str, value: Any, largest: int) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise Unreadable(f"{name} {value!r} is not a whole number from 0 to {largest}")
    return value


def _json_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"{name} {value!r} is not a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Unreadable(f"{name} {value!r} cannot be encoded as UTF-8") from error
    return value


def _true(name: str, value: Any) -> bool:
    if value is not True:
        raise Unreadable(f"{name} {value!r} is not true")
    return True


def _int32(name: str, value: Any) -> int:
    return _whole(name, value, _INT32_MAX)


def _int64(name: str, value: Any) -> int:
    return _whole(name, value, _INT64_MAX)


_JSON_FIELDS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "group": _json_text,
    "topic": _json_text,
    "partition": _int32,
    "offset": _int64,
    "leader_epoch": _int32,
    "metadata": _json_text,
    "commit_timestamp_ms": _int64,
    "expire_timestamp_ms": _int64,
    "revision": _int64,
    "expected_revision": _int64,
    "must_not_exist": _true,
}
assert tuple(_JSON_FIELDS) == FileOffset._fields

_LINE_READERS: Final[dict[OffsetFormat, Callable[[str], FileOffset]]] = {
    OffsetFormat.KAFKA_CSV: _read_csv,
    OffsetFormat.RPK: _read_rpk,
    OffsetFormat.JSONL: _read_json_line,
}

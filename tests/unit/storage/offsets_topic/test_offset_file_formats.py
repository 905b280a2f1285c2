"""Offsets written to files and read back, and files of others."""

from __future__ import annotations

import json
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.offsets_topic.offset_file_formats import (
    DOCUMENT_BYTES_MAX,
    LINE_BYTES_MAX,
    FileOffset,
    Line,
    OffsetFormat,
    OffsetReader,
    Unreadable,
    Unwritable,
    written,
)

INT64 = st.integers(0, 2**63 - 1)
INT32 = st.integers(0, 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAME = TEXT.filter(bool)
LINE_NAME = NAME.filter(lambda name: "\n" not in name and "\r" not in name)
MARK = "\ufeff"  # Of the byte order, as some editors put it before a file.
WORD = NAME.filter(lambda name: name.split() == [name])


def plain(group: st.SearchStrategy[str], topic: st.SearchStrategy[str]) -> st.SearchStrategy:
    return st.tuples(group, topic, INT32, INT64).map(lambda fields: FileOffset(*fields))


def none_or(values: st.SearchStrategy[int]) -> st.SearchStrategy[int]:
    return st.just(-1) | values


FULL = st.tuples(TEXT, TEXT, INT32, INT64, none_or(INT32), TEXT, *[none_or(INT64)] * 3).map(
    lambda fields: FileOffset(*fields)
)


def read(file_format: OffsetFormat, content: bytes, piece_bytes: int = 1 << 16) -> list[Line]:
    reader = OffsetReader(file_format)
    lines = []
    for start in range(0, len(content), piece_bytes):
        lines += reader.feed(content[start : start + piece_bytes])
    return [*lines, *reader.end()]


def offsets_in(file_format: OffsetFormat, content: bytes, piece_bytes: int) -> list[FileOffset]:
    lines = read(file_format, content, piece_bytes)
    assert [line.problem for line in lines if line.offset is None] == []
    return [line.offset for line in lines if line.offset is not None]


def text_of(file_format: OffsetFormat, offsets: list[FileOffset], *, names_group: bool) -> bytes:
    return "".join(written(file_format, offsets, names_group=names_group)).encode()


@given(st.lists(FULL, max_size=8), st.integers(1, 50))
def test_our_lines_come_back_with_all_they_had(offsets: list[FileOffset], piece: int) -> None:
    content = text_of(OffsetFormat.JSONL, offsets, names_group=False)
    assert offsets_in(OffsetFormat.JSONL, content, piece) == offsets


@given(st.lists(plain(NAME, LINE_NAME), max_size=8), st.integers(1, 50), st.booleans())
def test_lines_of_kafka_come_back(offsets: list[FileOffset], piece: int, names_group: bool) -> None:
    first = operator.attrgetter("group" if names_group else "topic")
    if any("\n" in each.group or "\r" in each.group for each in offsets) or any(
        first(each).startswith(MARK) for each in offsets
    ):
        with pytest.raises(Unwritable):
            text_of(OffsetFormat.KAFKA_CSV, offsets, names_group=names_group)
        return
    content = text_of(OffsetFormat.KAFKA_CSV, offsets, names_group=names_group)
    expected = offsets if names_group else [each._replace(group="") for each in offsets]
    assert offsets_in(OffsetFormat.KAFKA_CSV, content, piece) == expected


@given(st.lists(plain(st.just(""), WORD), max_size=8), st.integers(1, 50))
def test_lines_of_rpk_come_back(offsets: list[FileOffset], piece: int) -> None:
    if any(each.topic.startswith(MARK) for each in offsets):
        with pytest.raises(Unwritable):
            text_of(OffsetFormat.RPK, offsets, names_group=False)
        return
    content = text_of(OffsetFormat.RPK, offsets, names_group=False)
    assert offsets_in(OffsetFormat.RPK, content, piece) == offsets


@pytest.mark.parametrize(
    ("file_format", "offset", "names_group"),
    [
        (OffsetFormat.RPK, FileOffset("", MARK + "orders", 0, 1), False),
        (OffsetFormat.KAFKA_CSV, FileOffset("", MARK + "orders", 0, 1), False),
        (OffsetFormat.KAFKA_CSV, FileOffset(MARK + "g", "orders", 0, 1), True),
    ],
)
def test_a_name_is_not_written_of_which_readers_would_take_the_start(
    file_format: OffsetFormat, offset: FileOffset, names_group: bool
) -> None:
    with pytest.raises(Unwritable, match="byte order mark"):
        text_of(file_format, [offset], names_group=names_group)
    content = text_of(OffsetFormat.JSONL, [offset], names_group=False)
    assert offsets_in(OffsetFormat.JSONL, content, 100) == [offset]


@given(
    NAME,
    st.dictionaries(TEXT, st.dictionaries(INT32, INT64, min_size=1, max_size=3), min_size=1),
    st.integers(1, 50),
)
def test_documents_of_kafka_utils_come_back(
    group: str, topics: dict[str, dict[int, int]], piece: int
) -> None:
    offsets = [
        FileOffset(group, topic, partition, offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    ]
    content = text_of(OffsetFormat.KAFKA_UTILS_JSON, offsets, names_group=False)
    assert offsets_in(OffsetFormat.KAFKA_UTILS_JSON, content, piece) == offsets
    named = {topic: {str(p): o for p, o in of.items()} for topic, of in topics.items()}
    assert json.loads(content) == {"groupid": group, "offsets": named}


@given(st.sampled_from(OffsetFormat), st.binary(max_size=60) | TEXT.map(str.encode))
def test_whatever_a_file_holds_each_line_is_an_offset_or_a_problem(
    file_format: OffsetFormat, content: bytes
) -> None:
    for line in read(file_format, content, 7):
        assert (line.offset is None) == bool(line.problem)


@pytest.mark.parametrize(
    ("file_format", "content", "expected"),
    [
        ("KAFKA_CSV", b"orders,0,5\n", ("", "orders", 0, 5)),
        ("KAFKA_CSV", b"orders,0,5", ("", "orders", 0, 5)),
        ("KAFKA_CSV", b'g,"or,ders",0,5\r\n', ("g", "or,ders", 0, 5)),
        ("KAFKA_CSV", b"\xef\xbb\xbfg,orders, 0, 5\n\n", ("g", "orders", 0, 5)),
        ("RPK", b"orders\t0  5\n", ("", "orders", 0, 5)),
        ("JSONL", b'{"group":"g","topic":"t","partition":1,"offset":2}', ("g", "t", 1, 2)),
        (
            "KAFKA_UTILS_JSON",
            b'{"offsets": {"orders": {"0": 5}}, "groupid": "g"}',
            ("g", "orders", 0, 5),
        ),
    ],
)
def test_a_file_as_others_write_it(
    file_format: str, content: bytes, expected: tuple[str, str, int, int]
) -> None:
    [line] = read(OffsetFormat[file_format], content)
    assert line == Line(1, FileOffset(*expected))


@pytest.mark.parametrize(
    ("file_format", "line", "problem"),
    [
        ("KAFKA_CSV", b"topic,partition,offset", "partition 'partition' is not a whole number"),
        ("KAFKA_CSV", b"orders,0", "neither `topic,partition,offset` nor"),
        ("KAFKA_CSV", b"a,b,c,0,5", "neither `topic,partition,offset` nor"),
        ("KAFKA_CSV", b'"orders,0,5', "no line of CSV"),
        ("KAFKA_CSV", b"orders,-1,5", "partition '-1' is not a whole number"),
        ("KAFKA_CSV", b"orders,0,9223372036854775808", "offset 9223372036854775808 is not a whole"),
        ("KAFKA_CSV", "orders,0,٣".encode(), "offset '٣' is not a whole number"),
        ("KAFKA_CSV", b"\xff,0,5", "not UTF-8"),
        ("RPK", b"orders 0", "not a topic, a partition and an offset"),
        ("RPK", b"my orders 0 5", "not a topic, a partition and an offset"),
        ("RPK", b"orders 2147483648 5", "partition 2147483648 is not a whole number"),
        ("JSONL", b"[1]", "no JSON object"),
        ("JSONL", b"{", "no JSON"),
        ("JSONL", b'{"group":"g","topic":"t","partition":1}', "'offset' is missing"),
        ("JSONL", b'{"group":"g","topic":"t","partition":1,"offset":NaN}', "NaN is not JSON"),
        ("JSONL", b'{"group":"g","topic":"t","partition":true,"offset":1}', "partition True"),
        ("JSONL", b'{"group":"g","topic":"t","partition":1,"offset":1.0}', "offset 1.0"),
        ("JSONL", b'{"topic":"t","topic":"u"}', "'topic' is there twice"),
        (
            "JSONL",
            b'{"group":"g","topic":"\\ud800","partition":1,"offset":1}',
            "cannot be encoded as UTF-8",
        ),
        ("JSONL", b'{"group":"g","topic":"t","partition":1,"offset":1,"lag":2}', "'lag' is not"),
        ("KAFKA_UTILS_JSON", b"[]", "not {"),
        ("KAFKA_UTILS_JSON", b'{"groupid":"g"}', "not {"),
        ("KAFKA_UTILS_JSON", b'{"groupid":1,"offsets":{}}', "`groupid` is a text"),
        ("KAFKA_UTILS_JSON", b'{"groupid":"g","offsets":{"t":{"x":1}}}', "partition 'x'"),
        ("KAFKA_UTILS_JSON", b'{"groupid":"g","offsets":{"t":{"0":"1"}}}', "offset '1'"),
    ],
)
def test_a_line_that_is_none_says_why(file_format: str, line: bytes, problem: str) -> None:
    [found] = read(OffsetFormat[file_format], line)
    assert found.offset is None
    assert problem in found.problem


def test_lines_keep_their_numbers() -> None:
    lines = read(OffsetFormat.KAFKA_CSV, b"a,0,1\n\nnone\nb,0,2\n", 3)
    assert [(line.number, line.offset is not None) for line in lines] == [
        (1, True),
        (3, False),
        (4, True),
    ]


@pytest.mark.parametrize(
    ("file_format", "bytes_max"),
    [("KAFKA_UTILS_JSON", DOCUMENT_BYTES_MAX), ("JSONL", LINE_BYTES_MAX)],
)
def test_what_has_no_end_is_given_up(file_format: str, bytes_max: int) -> None:
    reader = OffsetReader(OffsetFormat[file_format])
    assert list(reader.feed(b" " * bytes_max)) == []
    with pytest.raises(Unreadable):
        list(reader.feed(b" "))


@pytest.mark.parametrize(
    ("file_format", "offsets"),
    [
        ("RPK", [FileOffset("g", "my orders", 0, 1)]),
        ("KAFKA_CSV", [FileOffset("g", "a\nb", 0, 1)]),
        ("KAFKA_UTILS_JSON", [FileOffset("g", "t", 0, 1), FileOffset("h", "t", 0, 1)]),
    ],
)
def test_what_a_format_cannot_hold_is_not_written(
    file_format: str, offsets: list[FileOffset]
) -> None:
    with pytest.raises(Unwritable):
        text_of(OffsetFormat[file_format], offsets, names_group=True)

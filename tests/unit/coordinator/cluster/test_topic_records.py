"""Record batches become records of a Kafka topic, and batches again."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_stores import P0, opened
from offsetd_coordinator.cluster.copy_appends import append_read_batch, fill_gap
from offsetd_coordinator.cluster.topic_records import (
    PLACE_HEADER,
    PlacedRecord,
    TopicRecord,
    batches_of,
    gap_batches,
    placed_record,
    topic_records,
)
from offsetd_storage.batch.record_batch import Record, batch_header, decode_batch, encode_batch
from offsetd_storage.disk.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
MAYBE_BYTES = st.none() | st.binary(max_size=12)
HEADERS = st.lists(st.tuples(st.text(max_size=3), MAYBE_BYTES), max_size=2).map(tuple)


@attrs.frozen
class Message:
    """A record as a Kafka consumer returns it."""

    sent: TopicRecord

    def key(self) -> bytes | None:
        return self.sent.key

    def value(self) -> bytes | None:
        return self.sent.value

    def headers(self) -> Any:
        return self.sent.headers or None

    def timestamp(self) -> tuple[int, int]:
        return 1, self.sent.timestamp_ms


@st.composite
def batches(draw: st.DrawFn) -> list[bytes]:
    """Batches in the order of their log offsets, with gaps between them."""
    made, offset = [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 5))):
        offset += draw(st.sampled_from((0, 0, 1, 2**33)))
        time_ms = NOW_MS + draw(st.integers(-5, 5))
        contents = draw(st.lists(st.tuples(MAYBE_BYTES, MAYBE_BYTES, HEADERS), min_size=1))
        records = [
            Record(key=key, value=value, offset=at, timestamp_ms=time_ms, headers=headers)
            for at, (key, value, headers) in enumerate(contents, offset)
        ]
        made.append(encode_batch(records, base_offset=offset))
        offset += len(records)
    return made


def read_back(sent: list[TopicRecord]) -> list[PlacedRecord]:
    placed = [placed_record(Message(each)) for each in sent]
    return [each for each in placed if each is not None]


@given(batches())
def test_what_was_sent_is_read_back_byte_for_byte(made: list[bytes]) -> None:
    sent = [record for batch in made for record in topic_records(batch)]
    assert list(batches_of(read_back(sent))) == made


@given(batches(), st.data())
def test_what_kafka_left_keeps_its_offsets_and_its_batch(made: list[bytes], data: Any) -> None:
    sent = [record for batch in made for record in topic_records(batch)]
    left = [each for each in sent if data.draw(st.booleans())]
    records = {each.offset: each for batch in made for each in decode_batch(batch).records}
    bases = [batch_header(batch).base_offset for batch in made]
    read = [decode_batch(batch) for batch in batches_of(read_back(left))]
    found = [each for batch in read for each in batch.records]
    assert len(found) == len(left)
    assert all(records[each.offset] == each for each in found)
    assert [each.offset for each in found] == sorted(each.offset for each in found)
    for batch in read:
        assert batch.base_offset in bases, "a batch keeps its place: one commit is one batch"
        end = min((each for each in bases if each > batch.base_offset), default=2**62)
        assert all(each.offset < end for each in batch.records)


@given(st.integers(0, 2**40), st.integers(0, 2**34))
def test_a_gap_is_filled_without_a_hole_and_without_records(start: int, size: int) -> None:
    headers = [batch_header(batch) for batch in gap_batches(start, start + size, is_unused=True)]
    at = start
    for each in headers:
        assert (each.base_offset, each.count) == (at, 0)
        at = each.last_offset + 1
    assert at == start + size


@given(batches(), st.data())
def test_a_copy_holds_what_was_read_however_often_it_is_read(made: list[bytes], data: Any) -> None:
    """A node that starts again reads some records again."""
    store = opened(SimulatedFiles(), random=Random(1))
    small = [batch for batch in made if batch_header(batch).size_bytes < 600]
    again = data.draw(st.integers(0, len(small)))
    for batch in (*small, *small[again:]):
        append_read_batch(store, P0, batch)
    chunks = [bytes(buffer[:end]) for buffer, end in store.log(P0).read_chunks(1 << 20)]
    found, content = [], b"".join(chunks)
    while content:
        batch = decode_batch(content)
        found += batch.records
        content = content[batch.size_bytes :]
    assert found == [each for batch in small for each in decode_batch(batch).records]


def test_a_copy_goes_on_at_the_offset_of_a_claim() -> None:
    store = opened(SimulatedFiles(), random=Random(1))
    fill_gap(store, P0, 2**31 + 500)
    assert store.log(P0).offset_next == 2**31 + 500
    fill_gap(store, P0, 7)
    assert store.log(P0).offset_next == 2**31 + 500, "it never goes back"


@pytest.mark.parametrize(
    "headers", [[], [("a", b"b")], [(PLACE_HEADER, b"0" * 16), ("offsetd.node", b"n1")]]
)
def test_a_record_without_a_place_at_its_end_is_not_ours(headers: Any) -> None:
    assert placed_record(Message(TopicRecord(b"k", b"v", NOW_MS, headers))) is None

from __future__ import annotations

import attrs
import pytest
from cleaning import ABORT, COMMIT, NOW_MS, batch, keyed, marker, segments
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch
from offsetd_storage.cleaner.cleaned_transactions import (
    AbortedTransaction,
    CleanedTransactions,
    LastRecord,
    ProducerHistory,
    read_producers,
)
from offsetd_storage.errors import CorruptBatch, OldMessageFormat


def sent(at: int, producer_id: int, *, count: int = 1, epoch: int = 0, **fields) -> bytes:
    """A batch of a transaction."""
    return keyed(
        *["k"] * count,
        at=at,
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        **fields,
    )


def history(*batches: bytes) -> ProducerHistory:
    return read_producers(segments(batches))


def time_at(offset: int) -> int:
    return NOW_MS - 100_000 + offset


def test_a_log_without_producers_has_no_history():
    assert history(keyed("a"), keyed("b", at=1)) == ProducerHistory()


def test_aborted_transactions_are_told_with_the_stable_offset_behind_their_markers():
    found = history(
        sent(0, 1, count=2),
        sent(2, 2),
        sent(3, 1),
        marker(4, ABORT, 1),
        marker(5, ABORT, 2),
        sent(6, 1),
        marker(7, COMMIT, 1),
        marker(8, ABORT, 1),
    )
    assert found.aborted == (
        AbortedTransaction(producer_id=1, first_offset=0, last_offset=4, last_stable_offset=2),
        AbortedTransaction(producer_id=2, first_offset=2, last_offset=5, last_stable_offset=6),
    )
    assert found.last_stable_offset(9) == 9


def test_the_stable_offset_is_where_the_first_open_transaction_begins():
    found = history(sent(0, 1), marker(1, COMMIT, 1), sent(2, 2), sent(3, 1), sent(4, 2))
    assert found.open_first_offsets == {2: 2, 1: 3}
    assert found.last_stable_offset(5) == 2


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        pytest.param([sent(0, 1, count=3)], (2, 0, 2), id="data"),
        pytest.param([sent(0, 1), marker(1, COMMIT, 1)], (0, 0, 1), id="a marker of its epoch"),
        pytest.param(
            [sent(0, 1), marker(1, ABORT, 1, epoch=1)], (None, 1, 1), id="a marker of a later one"
        ),
        pytest.param([marker(1, COMMIT, 1)], (None, 0, 1), id="a marker alone"),
        pytest.param(
            [sent(0, 1), sent(1, 1, epoch=1), marker(2, COMMIT, 1, epoch=1)],
            (1, 1, 2),
            id="data of a later epoch",
        ),
        pytest.param(
            [keyed("a", producer_id=1, producer_epoch=0), keyed("a", at=1)],
            (0, 0, 0),
            id="without a transaction",
        ),
        pytest.param(
            [
                sent(0, 1),
                encode_batch([], base_offset=1, producer_id=1, producer_epoch=0, is_control=True),
            ],
            (0, 0, 0),
            id="a marker that was emptied",
        ),
        pytest.param(
            [
                batch(
                    base=4,
                    last_offset=6,
                    producer_id=1,
                    producer_epoch=0,
                    max_timestamp_ms=time_at(5),
                )
            ],
            (6, 0, 5),
            id="a batch that was emptied",
        ),
    ],
)
def test_the_last_record_of_a_producer_is_that_of_its_last_epoch(batches, expected):
    data_offset, epoch, time = expected
    assert history(*batches).last_records[1] == LastRecord(
        last_data_offset=data_offset, producer_epoch=epoch, last_timestamp_ms=time_at(time)
    )


def test_a_producer_is_active_until_it_expires_or_while_its_transaction_is_open():
    found = history(
        keyed("a", producer_id=1, producer_epoch=0), sent(1, 2), sent(2, 3), marker(3, ABORT, 3)
    )
    ages = {
        now: set(found.active(now_ms=time_at(now), expiration_ms=10)) for now in (9, 10, 12, 13)
    }
    assert ages == {9: {1, 2, 3}, 10: {2, 3}, 12: {2, 3}, 13: {2}}


def test_history_goes_through_all_segments_and_more_batches_than_are_told_at_once():
    count = 9000
    raw = [sent(0, 0)[8:], sent(0, 1)[8:]]
    content = [at.to_bytes(8, "big") + raw[at % 2] for at in range(count)]
    source = segments(content[: count // 2], content[count // 2 :])
    found = read_producers(source)
    assert {pid: last.last_data_offset for pid, last in found.last_records.items()} == {
        0: count - 2,
        1: count - 1,
    }
    assert found.open_first_offsets == {0: 0, 1: 1}


def test_damage_and_old_messages_are_typed_errors():
    (source,) = segments([keyed("a"), keyed("b", at=1)])
    with pytest.raises(CorruptBatch, match="incomplete at byte 70"):
        read_producers([attrs.evolve(source, size_bytes=139)])
    source.file.pwrite([b"\xff"], 70 + 8)
    with pytest.raises(CorruptBatch, match="bad length at byte 70"):
        read_producers([source])
    source.file.pwrite([b"\0"], 16)
    with pytest.raises(OldMessageFormat, match="v0 at byte 0"):
        read_producers([source])


# One pass.

ABORTED = AbortedTransaction(producer_id=1, first_offset=5, last_offset=9, last_stable_offset=10)


def ended(transactions: CleanedTransactions, offset: int, kind: int, producer_id: int = 1) -> bool:
    return transactions.end(decode_batch(marker(offset, kind, producer_id)))


def test_a_transaction_is_aborted_by_the_first_marker_behind_it():
    transactions = CleanedTransactions([ABORTED])
    for last_offset, is_aborted in ((4, 0), (5, 1), (8, 1), (10, 0)):
        transactions.begin(1, last_offset)
        assert transactions.open_rows[: transactions.open_count].tolist() == [[1, is_aborted]]
        ended(transactions, last_offset, COMMIT)


def test_a_marker_can_go_once_nothing_of_its_transaction_was_met():
    transactions = CleanedTransactions([ABORTED])
    assert ended(transactions, 9, ABORT)
    transactions.begin(1, 5)
    assert not ended(transactions, 9, ABORT)
    assert transactions.take_retained_aborts() == [ABORTED]
    assert ended(transactions, 10, COMMIT)
    transactions.begin(1, 11)
    assert ended(transactions, 12, COMMIT, producer_id=2)
    assert not ended(transactions, 13, COMMIT)
    assert transactions.take_retained_aborts() == []


def test_open_transactions_have_no_bound_and_end_in_any_order():
    transactions = CleanedTransactions()
    for producer_id in range(100):
        transactions.begin(producer_id, 0)
    for producer_id in range(0, 100, 3):
        assert not ended(transactions, 1, COMMIT, producer_id)
    left = {row[0] for row in transactions.open_rows[: transactions.open_count].tolist()}
    assert left == set(range(100)) - set(range(0, 100, 3))


def control(key: bytes | None) -> bytes:
    record = Record(key=key, value=b"", offset=0, timestamp_ms=0)
    return encode_batch([record], base_offset=0, is_control=True)


def test_what_is_no_marker_stays_and_what_is_emptied_can_go():
    transactions = CleanedTransactions()
    assert not transactions.end(decode_batch(control(b"\0\0\0\2")))
    assert transactions.end(decode_batch(encode_batch([], base_offset=0, is_control=True)))


@pytest.mark.parametrize("key", [None, b"\0\0\0", b"\xff\xff\0\1"])
def test_a_control_record_without_a_type_is_damage(key):
    with pytest.raises(CorruptBatch, match="without its type"):
        CleanedTransactions().end(decode_batch(control(key)))

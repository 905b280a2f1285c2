"""Small logs of which it is said, by hand, what Kafka's cleaner makes of them.

A batch is told as `base-last: offsets of its records`, with what is particular between.
"""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from compaction.logs import (
    ABORT,
    COMMIT,
    START_MS,
    Case,
    CleanerSettings,
    LogWriter,
    Producer,
    Round,
)
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import RecordBatch
from offsetd_storage.timestamp_type import TimestampType

Outline = Sequence[str]  # Of one segment.


@attrs.frozen(kw_only=True)
class Expected:
    """After a round: where the next begins, and the segments, the active one aside."""

    next_first_dirty: int
    segments: Sequence[Outline]


@attrs.frozen(kw_only=True)
class Example:
    """A case and what comes of it, round by round."""

    case: Case
    expected: Sequence[Expected]


def outline(batch: RecordBatch) -> str:
    """As this file tells a batch; times count from `START_MS`."""
    words = [f"{batch.base_offset}-{batch.last_offset}"]
    if batch.is_control:
        words.append("marker")
    if batch.delete_horizon_ms is not None:
        words.append(f"until {batch.delete_horizon_ms - START_MS}")
    if batch.compression is not Compression.NONE:
        words.append(batch.compression.name.lower())
    offsets = " ".join(str(record.offset) for record in batch.records)
    return f"{' '.join(words)}: {offsets}".strip()


EXAMPLES: list[Callable[[], Example]] = []


def _example(make: Callable[[], Example]) -> Callable[[], Example]:
    EXAMPLES.append(make)
    return make


def _case(log: LogWriter, *rounds: Round, **settings: Any) -> Case:
    """Behind what is to be cleaned comes an active segment of one record."""
    log.roll()
    log.put((b"active", b"1"))
    return Case(
        name="example",
        segments=log.segments,
        settings=CleanerSettings(**settings),
        rounds=rounds,
    )


def _at(ms: int, *, end: int | None = None) -> Round:
    return Round(now_ms=START_MS + ms, end=end)


@_example
def the_last_value_of_each_key() -> Example:
    log = LogWriter()
    log.put((b"a", b"1"), (b"b", b"1"))
    log.put((b"a", b"2"))
    log.put((b"c", b"1"), (b"b", b"2"), (b"c", b"2"))
    return Example(
        case=_case(log, _at(1)),
        expected=[Expected(next_first_dirty=6, segments=[["2-2: 2", "3-5: 4 5"]])],
    )


@_example
def a_map_of_ten_slots_takes_nine_keys_a_round() -> Example:
    log = LogWriter()
    for number in range(20):
        log.put((b"key-%d" % number, b"v"))
    all_stay = [[f"{offset}-{offset}: {offset}" for offset in range(20)]]
    return Example(
        case=_case(log, _at(1), _at(1), _at(1), _at(1), map_slots=10),
        expected=[
            Expected(next_first_dirty=offset, segments=all_stay) for offset in (9, 18, 20, 20)
        ],
    )


@_example
def a_map_that_is_filled_whole_takes_a_key_for_each_slot() -> Example:
    log = LogWriter()
    for number in range(9):
        log.put((b"key-%d" % number, b"v"))
    all_stay = [[f"{offset}-{offset}: {offset}" for offset in range(9)]]
    return Example(
        case=_case(log, _at(1), _at(1), _at(1), map_slots=4, map_load_factor=1.0),
        expected=[Expected(next_first_dirty=offset, segments=all_stay) for offset in (4, 8, 9)],
    )


@_example
def a_full_map_stops_at_a_key_that_it_has_and_not_at_a_record_without_one() -> Example:
    log = LogWriter()
    log.put((None, b"0"), (b"a", b"1"), (None, b"2"), (b"a", b"3"), (b"a", b"4"))
    return Example(
        case=_case(log, _at(1), _at(1), _at(1), map_slots=2),
        expected=[
            # The mapped range ends with the last key's record.
            Expected(next_first_dirty=2, segments=[["0-4: 1 2 3 4"]]),
            Expected(next_first_dirty=4, segments=[["0-4: 3 4"]]),
            Expected(next_first_dirty=5, segments=[["0-4: 4"]]),
        ],
    )


@_example
def a_tombstone_goes_in_the_first_round_at_or_after_its_horizon() -> Example:
    log = LogWriter()
    log.put((b"a", b"1"), (b"b", b"1"))
    log.put((b"a", None), (b"b", b"2"))
    first, second = log.roll(), 5
    log.put((b"c", b"1"))
    log.roll()
    log.put((b"d", b"1"))
    return Example(
        case=_case(
            log, _at(10, end=first), _at(109, end=second), _at(110), delete_retention_ms=100
        ),
        expected=[
            Expected(next_first_dirty=4, segments=[["2-3 until 110: 2 3"], ["4-4: 4"], ["5-5: 5"]]),
            Expected(next_first_dirty=5, segments=[["2-3 until 110: 2 3", "4-4: 4"], ["5-5: 5"]]),
            # The horizon stays with the batch.
            Expected(next_first_dirty=6, segments=[["2-3 until 110: 3", "4-4: 4", "5-5: 5"]]),
        ],
    )


@_example
def tombstones_beyond_the_mapped_range_are_stamped_with_it() -> Example:
    log = LogWriter()
    log.put((b"a", b"1"))
    log.put((b"b", None))
    log.put((b"c", None))
    return Example(
        case=_case(log, _at(1), _at(101), _at(101), map_slots=2, delete_retention_ms=100),
        expected=[
            Expected(
                next_first_dirty=1, segments=[["0-0: 0", "1-1 until 101: 1", "2-2 until 101: 2"]]
            ),
            Expected(next_first_dirty=2, segments=[["0-0: 0", "2-2 until 101: 2"]]),
            # It would go, and its batch with it, were the batch not the round's last.
            Expected(next_first_dirty=3, segments=[["0-0: 0", "2-2:"]]),
        ],
    )


@_example
def a_round_keeps_its_last_batch_though_it_is_empty() -> Example:
    log = LogWriter()
    log.put((b"a", b"1"))
    log.put((None, b"1"), (None, b"2"))
    end = log.roll()
    log.put((b"b", b"1"))
    return Example(
        case=_case(log, _at(1, end=end), _at(1)),
        expected=[
            Expected(next_first_dirty=3, segments=[["0-0: 0", "1-2:"], ["3-3: 3"]]),
            Expected(next_first_dirty=4, segments=[["0-0: 0", "3-3: 3"]]),
        ],
    )


@_example
def aborted_records_go_at_once_and_their_marker_at_its_horizon() -> Example:
    log, producer = LogWriter(), Producer(id=7)
    log.put((b"a", b"1"))
    log.put((b"a", b"2"), producer=producer, is_transactional=True)
    log.mark(producer, ABORT)
    ends = []
    for number in range(3):
        ends.append(log.roll())
        log.put((b"b%d" % number, b"1"))
    rounds = [_at(100 * number + 5000, end=end) for number, end in enumerate(ends)]
    first = "2-2 marker: 2"
    stamped = "2-2 marker until 5200: 2"
    return Example(
        # The producer is long forgotten.
        case=_case(log, *rounds, delete_retention_ms=100, producer_expiration_ms=1000),
        expected=[
            Expected(
                next_first_dirty=3,
                segments=[["0-0: 0", first], ["3-3: 3"], ["4-4: 4"], ["5-5: 5"]],
            ),
            Expected(
                next_first_dirty=4, segments=[["0-0: 0", stamped, "3-3: 3"], ["4-4: 4"], ["5-5: 5"]]
            ),
            Expected(next_first_dirty=5, segments=[["0-0: 0", "3-3: 3", "4-4: 4"], ["5-5: 5"]]),
        ],
    )


@_example
def an_aborted_transaction_goes_from_all_segments_that_it_spans() -> Example:
    log, producer = LogWriter(), Producer(id=7)
    log.put((b"a", b"1"))
    log.put((b"a", b"2"), producer=producer, is_transactional=True)
    log.roll()
    log.put((b"b", b"1"))
    log.put((b"b", b"2"), producer=producer, is_transactional=True)
    log.roll()
    log.mark(producer, ABORT)
    log.put((b"c", b"1"))
    return Example(
        # Each segment is a group of its own.
        case=_case(log, _at(5000), segment_bytes=61, producer_expiration_ms=1000),
        expected=[
            Expected(
                next_first_dirty=6, segments=[["0-0: 0"], ["2-2: 2"], ["4-4 marker: 4", "5-5: 5"]]
            )
        ],
    )


@_example
def a_full_map_ends_a_round_within_an_aborted_transaction() -> Example:
    log, producer = LogWriter(), Producer(id=7)
    log.put((b"a", b"1"))
    log.put((b"a", b"2"), producer=producer, is_transactional=True)
    log.put((b"b", b"1"))
    log.put((b"b", b"2"), producer=producer, is_transactional=True)
    log.mark(producer, ABORT)
    log.put((b"c", b"1"))
    return Example(
        case=_case(
            log,
            *[_at(5000 + 100 * number) for number in range(3)],
            map_slots=2,
            producer_expiration_ms=1000,
            delete_retention_ms=100,
        ),
        expected=[
            # The aborted records of the range that was not mapped go as well.
            Expected(
                next_first_dirty=2, segments=[["0-0: 0", "2-2: 2", "4-4 marker: 4", "5-5: 5"]]
            ),
            Expected(
                next_first_dirty=5,
                segments=[["0-0: 0", "2-2: 2", "4-4 marker until 5200: 4", "5-5: 5"]],
            ),
            Expected(next_first_dirty=6, segments=[["0-0: 0", "2-2: 2", "5-5: 5"]]),
        ],
    )


@_example
def an_active_producer_keeps_its_last_batch_and_that_the_marker() -> Example:
    log, producer = LogWriter(), Producer(id=7)
    log.put((b"a", b"1"))
    log.put((b"a", b"2"), (b"b", b"2"), producer=producer, is_transactional=True)
    log.mark(producer, ABORT)
    end = log.roll()
    log.put((b"c", b"1"))
    return Example(
        case=_case(log, _at(1, end=end), _at(1000), delete_retention_ms=100),
        expected=[
            Expected(
                next_first_dirty=4, segments=[["0-0: 0", "1-2:", "3-3 marker: 3"], ["4-4: 4"]]
            ),
            Expected(next_first_dirty=5, segments=[["0-0: 0", "1-2:", "3-3 marker: 3", "4-4: 4"]]),
        ],
    )


@_example
def what_was_committed_counts_and_what_is_open_is_not_reached() -> Example:
    log, done, undone = LogWriter(), Producer(id=7), Producer(id=8)
    log.put((b"a", b"1"))
    log.put((b"a", b"2"), producer=done, is_transactional=True)
    log.mark(done, COMMIT)
    end = log.roll()
    log.put((b"a", b"3"), producer=undone, is_transactional=True)
    log.put((b"a", b"4"))
    kept = [["1-1: 1", "2-2 marker: 2"], ["3-3: 3", "4-4: 4"]]
    return Example(
        case=_case(log, _at(1), _at(1)),
        expected=[Expected(next_first_dirty=end, segments=kept)] * 2,
    )


@_example
def a_rebuilt_batch_keeps_its_codec_and_an_empty_one_does_not() -> Example:
    log = LogWriter()
    log.put((b"a", b"1"), (b"b", b"1"), compression=Compression.ZSTD)
    log.put((b"b", b"2"), (b"a", None), compression=Compression.LZ4)
    log.put((None, b"1"), compression=Compression.GZIP)
    return Example(
        case=_case(log, _at(1), delete_retention_ms=100),
        expected=[Expected(next_first_dirty=5, segments=[["2-3 until 101 lz4: 2 3", "4-4:"]])],
    )


@_example
def segments_are_grouped_by_their_sizes_before() -> Example:
    log = LogWriter()
    log.put((b"a", b"1"))
    log.roll()
    log.put((b"a", b"2"))
    log.roll()
    log.put((b"a", b"3"))
    return Example(
        # A batch is 70 bytes.
        case=_case(log, _at(1), _at(1), segment_bytes=140),
        expected=[Expected(next_first_dirty=3, segments=[[], ["2-2: 2"]])] * 2,
    )


@_example
def a_group_spans_no_more_offsets_than_an_index_holds() -> Example:
    log = LogWriter()
    for number in range(3):
        log.put((b"same", b"1"), (b"key-%d" % number, b"1"))
        log.skip(2**30 - 2)
        log.roll()
    joined = ["0-1: 1", f"{2**30}-{2**30 + 1}: {2**30 + 1}"]
    apart = [f"{2**31}-{2**31 + 1}: {2**31} {2**31 + 1}"]
    return Example(
        # The second ends at 2^31 - 1, as far from 0 as can be; the third begins at 2^31.
        case=_case(log, _at(1)),
        expected=[Expected(next_first_dirty=3 * 2**30, segments=[joined, apart])],
    )


@_example
def the_next_round_begins_behind_a_gap() -> Example:
    log = LogWriter()
    log.put((b"a", b"1"))
    log.put((b"b", b"1"), unused=3)
    log.skip(100)
    return Example(
        case=_case(log, _at(1)),
        expected=[Expected(next_first_dirty=105, segments=[["0-0: 0", "1-4: 1"]])],
    )


@_example
def compaction_lag_leaves_what_is_young() -> Example:
    log = LogWriter()
    log.put((b"a", b"1"))
    log.roll()
    log.now_ms += 10
    log.put((b"a", b"2"))
    return Example(
        case=_case(log, _at(59), _at(60), min_compaction_lag_ms=50),
        expected=[
            Expected(next_first_dirty=1, segments=[["0-0: 0"], ["1-1: 1"]]),
            Expected(next_first_dirty=2, segments=[["1-1: 1"]]),
        ],
    )


@_example
def append_time_stays_that_of_every_record() -> Example:
    log = LogWriter(timestamp_type=TimestampType.LOG_APPEND_TIME)
    log.put((b"a", b"1"), (b"b", None), (b"a", b"2"), timestamps_ms=[START_MS - 9] * 3)
    return Example(
        case=_case(log, _at(1), delete_retention_ms=100),
        expected=[Expected(next_first_dirty=3, segments=[["0-2 until 101: 1 2"]])],
    )


def examples() -> list[Example]:
    """All of them; each case has the name of its function."""
    made = [(make.__name__, make()) for make in EXAMPLES]
    return [attrs.evolve(each, case=attrs.evolve(each.case, name=name)) for name, each in made]

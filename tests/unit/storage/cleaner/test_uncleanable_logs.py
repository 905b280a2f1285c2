"""Logs that could not be cleaned rest for longer with each failure, and are forgiven by success."""

from __future__ import annotations

from offsetd_storage.cleaner.uncleanable_logs import CleaningFailures, UncleanablePartition
from offsetd_storage.topic_partition import TopicPartition

P0, P1 = (TopicPartition("t", partition) for partition in range(2))
NOW_MS = 1_700_000_000_000


def fail(
    failures: CleaningFailures, at_ms: int, topic_partition: TopicPartition = P0
) -> UncleanablePartition:
    return failures.fail(
        topic_partition,
        f"at {at_ms}",
        is_damaged=False,
        now_ms=NOW_MS + at_ms,
        monotonic_ms=at_ms,
    )


def test_the_rest_doubles_up_to_five_minutes() -> None:
    failures = CleaningFailures()
    rests = [fail(failures, 0).retry_in_ms for _ in range(60)]
    assert rests[:9] == [1000 << n for n in range(9)]
    assert set(rests[9:]) == {300_000}


def test_what_is_known_of_a_failure() -> None:
    failures = CleaningFailures()
    fail(failures, 5)
    fail(failures, 1500)
    found = failures.failure(P0, monotonic_ms=2000)
    assert found is not None
    assert (found.since_ms, found.last_ms) == (NOW_MS + 5, NOW_MS + 1500)
    assert (found.failures_in_row, found.reason, found.retry_in_ms) == (2, "at 1500", 1500)
    assert failures.failure(P1, monotonic_ms=2000) is None
    fail(failures, 0, P1)
    assert [each.topic_partition for each in failures.all(monotonic_ms=9999)] == [P0, P1]
    assert [each.retry_in_ms for each in failures.all(monotonic_ms=9999)] == [0, 0]


def test_a_log_rests_until_its_time_comes_or_an_operator_does() -> None:
    failures = CleaningFailures()
    fail(failures, 0)
    assert failures.rests(P0, monotonic_ms=999)
    assert not failures.rests(P0, monotonic_ms=1000)
    assert not failures.rests(P1, monotonic_ms=0)
    assert failures.next_due_ms(monotonic_ms=0) == 1000
    assert failures.next_due_ms(monotonic_ms=1000) is None
    assert failures.retry(P0)
    assert not failures.rests(P0, monotonic_ms=1)
    assert not failures.retry(P1)
    assert fail(failures, 2).failures_in_row == 2


def test_success_forgives_all() -> None:
    failures = CleaningFailures()
    fail(failures, 0)
    failures.succeed(P0)
    assert failures.all(monotonic_ms=0) == ()
    assert not failures.rests(P0, monotonic_ms=0)
    assert fail(failures, 1).failures_in_row == 1


def test_a_log_that_only_lacked_room_rests_and_nothing_is_held_against_it() -> None:
    failures = CleaningFailures()
    failures.postpone(P0, due_ms=500)
    assert failures.rests(P0, monotonic_ms=499)
    assert failures.failure(P0, monotonic_ms=0) is None
    assert failures.all(monotonic_ms=0) == ()
    fail(failures, 600)
    failures.postpone(P0, due_ms=5000)  # What it failed of before stays.
    found = failures.failure(P0, monotonic_ms=700)
    assert found is not None
    assert (found.failures_in_row, found.retry_in_ms) == (1, 4300)


def test_nothing_is_held_against_a_log_that_nobody_cleans_any_more() -> None:
    failures = CleaningFailures()
    fail(failures, 0)
    fail(failures, 0, P1)
    failures.keep({P1})
    assert [each.topic_partition for each in failures.all(monotonic_ms=0)] == [P1]
    assert fail(failures, 9).failures_in_row == 1

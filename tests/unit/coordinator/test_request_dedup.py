"""Answers that are remembered by request."""

from offsetd_coordinator.request_dedup import RememberedRequests

WINDOW_MS = 1000


def remembered(
    *, window_ms: int | None = WINDOW_MS, count_max: int = 3, bytes_max: int | None = None
) -> RememberedRequests[str, int]:
    return RememberedRequests(window_ms=window_ms, count_max=count_max, bytes_max=bytes_max)


def test_a_repeat_is_known_by_its_key_for_as_long_as_the_window() -> None:
    requests = remembered()
    requests.remember("a", 7, timestamp_ms=5)
    assert requests.find("a", 5 + WINDOW_MS) == 7
    assert requests.find("a", 6 + WINDOW_MS) is None
    assert requests.find("b", 5) is None


def test_what_is_out_of_the_window_goes_with_the_next_answer_or_by_time_alone() -> None:
    requests = remembered()
    requests.remember("a", 1, timestamp_ms=0)
    requests.remember("b", 2, timestamp_ms=WINDOW_MS)
    assert "a" in requests
    requests.remember("c", 3, timestamp_ms=WINDOW_MS + 1)
    assert "a" not in requests
    requests.expire(2 * WINDOW_MS + 1)
    assert ("b" in requests, "c" in requests) == (False, True)


def test_the_oldest_make_way_and_an_answer_that_is_renewed_is_no_longer_the_oldest() -> None:
    requests = remembered()
    for key in "abcad":
        requests.remember(key, ord(key))
    assert [key for key in "abcd" if key in requests] == ["a", "c", "d"]


def test_nothing_is_remembered_where_no_answer_may_be() -> None:
    requests = remembered(count_max=0)
    requests.remember("a", 1)
    assert len(requests) == 0


def test_answers_take_no_more_than_the_bytes_that_they_may() -> None:
    requests = remembered(bytes_max=10)
    for key in "abc":
        requests.remember(key, 1, size_bytes=5)
    assert [key for key in "abc" if key in requests] == ["b", "c"]
    requests.remember("b", 2, size_bytes=11)
    assert [key for key in "abc" if key in requests] == ["c"]
    requests.remember("d", 3, size_bytes=5)
    assert len(requests) == 2


def test_without_a_window_only_the_bounds_count() -> None:
    requests = remembered(window_ms=None)
    requests.remember("a", 1, timestamp_ms=0)
    requests.remember("b", 2, timestamp_ms=1 << 62)
    assert (requests.find("a", 1 << 62), requests.find("b")) == (1, 2)

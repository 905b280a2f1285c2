"""Logs that an operator wants cleaned wait in order; all who ask for one are answered."""

from __future__ import annotations

import pytest
from offsetd_storage.cleaner.compaction_requests import CompactionRequests
from offsetd_storage.errors import CleaningAborted
from offsetd_storage.topic_partition import TopicPartition

P0, P1 = (TopicPartition("t", partition) for partition in range(2))


def yes(_: TopicPartition) -> bool:
    return True


def test_they_are_taken_in_order_as_far_as_they_let_themselves_be_begun() -> None:
    requests = CompactionRequests()
    requests.add(P0, rolls_active=False)
    requests.add(P1, rolls_active=False)
    taken = requests.take(lambda each: each == P1)
    assert taken is not None
    assert taken.topic_partition == P1
    assert requests.take(lambda _: False) is None
    taken = requests.take(yes)
    assert taken is not None
    assert taken.topic_partition == P0
    assert requests.take(yes) is None


def test_all_who_ask_for_a_log_are_answered() -> None:
    requests = CompactionRequests()
    answers = [requests.add(P0, rolls_active=False) for _ in range(2)]
    taken = requests.take(yes)
    assert taken is not None
    late = requests.add(P0, rolls_active=False)
    requests.put_back(taken)
    again = requests.take(yes)
    assert again is not None
    again.answer(None)
    assert [each.result(0) for each in (*answers, late)] == [None] * 3


def test_active_segments_are_rolled_once() -> None:
    requests = CompactionRequests()
    requests.add(P0, rolls_active=True)
    requests.add(P0, rolls_active=False)
    requests.add(P1, rolls_active=False)
    assert requests.take_rolls() == [P0]
    assert requests.take_rolls() == []
    requests.add(P1, rolls_active=True)
    assert requests.take_rolls() == [P1]


def test_what_nobody_will_do_fails_and_who_has_gone_is_passed_by() -> None:
    requests = CompactionRequests()
    answer, gone = (requests.add(P0, rolls_active=False) for _ in range(2))
    gone.cancel()
    requests.fail_all(CleaningAborted("stopped"))
    with pytest.raises(CleaningAborted):
        answer.result(0)
    assert gone.cancelled()
    assert requests.take(yes) is None

"""offsetd_clients.calling.commit_queue"""

from typing import Any

import attrs
import pytest
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from offsetd.v1 import offset_service_pb2
from offsetd_clients import DeadlineExceeded, RetryPolicy, Revision, Unavailable
from offsetd_clients.calling import commit_queue
from offsetd_clients.calling.commit_queue import CommitQueue, HandedIn
from offsetd_clients.errors import Failure, OffsetdError, error_of

TIMEOUT_S = 30.0
TRY_S = 10.0
RESPONSE = offset_service_pb2.StreamCommitsResponse


@attrs.define
class Clock:
    now_s: float = 1000.0


class GivenUp:
    """A future that its owner has cancelled."""

    def done(self) -> bool:
        return True


class Awaited:
    def done(self) -> bool:
        return False


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> CommitQueue:
    policy = RetryPolicy(
        timeout_s=TIMEOUT_S,
        try_timeout_s=TRY_S,
        wait_initial_s=1e-9,
        wait_max_s=1e-9,
        monotonic_s=lambda: clock.now_s,
    )
    return CommitQueue(policy)


def handed_in(name: str, *, clock: Clock | None = None, future: Any = None, size: int = 10) -> Any:
    request = offset_service_pb2.CommitOffsetsRequest(group_id=name)
    now_s = clock.now_s if clock is not None else 1000.0
    encoded, future = request.SerializeToString(), future or Awaited()
    commit = HandedIn(request, encoded, now_s=now_s, timeout_s=TIMEOUT_S, future=future)
    commit.size = size
    return commit


def fill(queue: CommitQueue, names: str, clock: Clock | None = None) -> list[HandedIn]:
    commits = [handed_in(name, clock=clock) for name in names]
    for commit in commits:
        queue.add(commit)
    return commits


def sent(queue: CommitQueue) -> dict[str, int]:
    """What the next message holds: sequences by name."""
    message = offset_service_pb2.StreamCommitsRequest.FromString(queue.next_message() or b"")
    return {each.commit.group_id: each.sequence for each in message.commits}


def named(outcomes: list[Any]) -> list[str]:
    return [commit.request.group_id for commit, _ in outcomes]


def ok(sequence: int, log_offset: int = 5) -> Any:
    result = offset_service_pb2.CommitResult(sequence=sequence)
    result.committed.revision.log_offset = log_offset
    return result


def error(code: str, retry_after_s: float | None = None) -> OffsetdError:
    return error_of(Failure(code=code, message="no", retry_after_s=retry_after_s))


def test_a_message_holds_what_waits_in_its_order_up_to_a_number_and_a_size(
    queue: CommitQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "_MESSAGE_COMMITS_MAX", 3)
    fill(queue, "abcde")
    assert [list(sent(queue)), list(sent(queue)), list(sent(queue))] == [[*"abc"], [*"de"], []]
    monkeypatch.setattr(queue, "_message_bytes_max", 15)
    fill(queue, "fgh")
    assert [list(sent(queue)), list(sent(queue))] == [["f", "g"], ["h"]]


def test_sequences_are_never_used_twice_and_a_result_without_a_commit_is_nobodys(
    queue: CommitQueue,
) -> None:
    a, b = fill(queue, "ab")
    first = sent(queue)
    queue.stream_ended(error("UNAVAILABLE"), 0.0)
    second = sent(queue)
    assert not set(first.values()) & set(second.values())
    late = RESPONSE(results=[ok(first["a"])])
    assert queue.take_results(late) == []
    outcomes = queue.take_results(RESPONSE(results=[ok(second["b"], 8), ok(second["a"], 7)]))
    assert outcomes == [(b, Revision(0, 8)), (a, Revision(0, 7))]
    assert queue.sweep() == ([], False, None)


def test_what_was_sent_comes_before_what_waits_when_it_is_sent_again(queue: CommitQueue) -> None:
    fill(queue, "ab")
    assert [*sent(queue)] == ["a", "b"]
    fill(queue, "cd")
    assert queue.stream_ended(error("UNAVAILABLE"), 0.0) == []
    assert [*sent(queue)] == [*"abcd"]


def test_who_has_less_time_than_the_wait_gets_the_error_of_the_stream(
    queue: CommitQueue, clock: Clock
) -> None:
    fill(queue, "a", clock)
    sent(queue)
    fill(queue, "b", clock)
    clock.now_s += 25
    fill(queue, "c", clock)
    outcomes = queue.stream_ended(error("UNAVAILABLE"), 6.0)
    assert named(outcomes) == ["a", "b"]
    assert all(type(failure) is Unavailable for _, failure in outcomes)
    assert outcomes[0][1] is not outcomes[1][1], "each caller raises an error of its own"
    assert [*sent(queue)] == ["c"]


@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "INVALID_ARGUMENT", "INTERNAL", "CANCELLED"])
def test_what_a_stream_is_no_help_for_goes_alone(queue: CommitQueue, code: str) -> None:
    a, b = fill(queue, "ab")
    sent(queue)
    (c,) = fill(queue, "c")
    assert queue.stream_ended(error(code), 0.0) == []
    assert [queue.next_alone(), queue.next_alone(), queue.next_alone()] == [a, b, None]
    assert [*sent(queue)] == ["c"]
    queue.stream_ended(error(code), 0.0)
    assert queue.next_alone() is c


def test_a_stream_that_is_refused_before_anything_is_sent_leaves_nobody_waiting(
    queue: CommitQueue,
) -> None:
    (a,) = fill(queue, "a")
    queue.stream_ended(error("UNAUTHENTICATED"), 0.0)
    assert queue.next_alone() is a
    assert not queue.has_work


def test_without_streams_all_go_alone_in_their_order(queue: CommitQueue) -> None:
    a, b = fill(queue, "ab")
    sent(queue)
    queue.stream_ended(error("UNIMPLEMENTED"), 0.0)
    (c,) = fill(queue, "c")
    assert not queue.streams
    assert queue.next_message() is None
    assert [queue.next_alone() for _ in range(4)] == [a, b, c, None]


def test_deadlines_end_commits_wherever_they_are(queue: CommitQueue, clock: Clock) -> None:
    fill(queue, "a", clock)
    sequences = sent(queue)
    fill(queue, "b", clock)
    clock.now_s += 1
    fill(queue, "c", clock)
    clock.now_s += TIMEOUT_S - 1
    outcomes, is_stuck, _ = queue.sweep()
    assert named(outcomes) == ["a", "b"]
    assert all(type(failure) is DeadlineExceeded for _, failure in outcomes)
    assert [failure.outcome_unknown for _, failure in outcomes] == [True, False]
    assert not is_stuck, "nothing that is still waited for was sent"
    assert queue.take_results(RESPONSE(results=[ok(sequences["a"])])) == []
    clock.now_s += 1
    assert named(queue.sweep()[0]) == ["c"]
    assert queue.sweep() == ([], False, None)
    assert queue.has_room


def test_what_went_wrong_says_more_than_that_time_is_up(queue: CommitQueue, clock: Clock) -> None:
    fill(queue, "a", clock)
    sent(queue)
    queue.stream_ended(error("UNAVAILABLE"), 1.0)
    clock.now_s += TIMEOUT_S
    ((_, failure),) = queue.sweep()[0]
    assert type(failure) is Unavailable
    assert failure.outcome_unknown


def test_the_next_look_is_when_a_try_or_a_deadline_ends(queue: CommitQueue, clock: Clock) -> None:
    assert queue.sweep() == ([], False, None)
    fill(queue, "a", clock)
    assert queue.sweep() == ([], False, TRY_S)
    clock.now_s += 4
    sent(queue)
    clock.now_s += 6
    assert queue.sweep() == ([], False, pytest.approx(4))
    clock.now_s += 4
    outcomes, is_stuck, _ = queue.sweep()
    assert (outcomes, is_stuck) == ([], True)
    queue.stream_ended(error("DEADLINE_EXCEEDED"), 0.0)
    sent(queue)
    clock.now_s += 9
    assert queue.sweep() == ([], False, pytest.approx(1))


def test_what_is_put_off_waits_as_long_as_the_server_asks(queue: CommitQueue, clock: Clock) -> None:
    fill(queue, "a", clock)
    sequences = sent(queue)
    status = Status(code=Code.RESOURCE_EXHAUSTED, message="full")
    retry = RetryInfo()
    retry.retry_delay.FromSeconds(5)
    status.details.add().Pack(retry)
    result = offset_service_pb2.CommitResult(sequence=sequences["a"], error=status)
    ((commit, failure),) = queue.take_results(RESPONSE(results=[result]))
    assert isinstance(failure, OffsetdError)
    assert queue.put_off(commit, failure)
    _, _, next_s = queue.sweep()
    assert next_s == pytest.approx(5)
    assert sent(queue) == {}
    clock.now_s += 5.001
    queue.sweep()
    assert [*sent(queue)] == ["a"]


@pytest.mark.parametrize(
    ("failure", "is_kept"),
    [
        (error("UNAVAILABLE", 29.0), True),
        (error("UNAVAILABLE", 30.0), False),
        (error("RESOURCE_EXHAUSTED"), False),
        (error("ABORTED"), False),
        (error("FAILED_PRECONDITION", 1.0), False),
    ],
)
def test_only_what_may_help_in_time_is_tried_again(
    queue: CommitQueue, failure: OffsetdError, is_kept: bool
) -> None:
    (commit,) = fill(queue, "a")
    sequences = sent(queue)
    queue.take_results(RESPONSE(results=[ok(sequences["a"])]))
    assert queue.put_off(commit, commit.failed(failure)) is is_kept


def test_what_was_cancelled_is_not_sent(queue: CommitQueue) -> None:
    queue.add(handed_in("a", future=GivenUp()))
    queue.add(handed_in("b"))
    queue.add(handed_in("c", future=GivenUp()))
    assert [*sent(queue)] == ["b"]
    assert queue.next_message() is None


@pytest.mark.parametrize(("bound", "least"), [("COMMITS_MAX", 2), ("BYTES_MAX", 20)])
def test_there_is_room_until_a_bound_and_again_when_one_is_answered(
    queue: CommitQueue, monkeypatch: pytest.MonkeyPatch, bound: str, least: int
) -> None:
    monkeypatch.setattr(commit_queue, bound, least)
    fill(queue, "a")
    assert queue.has_room
    fill(queue, "b")
    assert not queue.has_room
    sequences = sent(queue)
    assert not queue.has_room
    queue.take_results(RESPONSE(results=[ok(sequences["b"])]))
    assert queue.has_room


def test_all_are_given_up_once(queue: CommitQueue) -> None:
    fill(queue, "a")
    sent(queue)
    fill(queue, "b")
    outcomes = queue.abandon()
    assert named(outcomes) == ["a", "b"]
    assert [failure.outcome_unknown for _, failure in outcomes] == [True, False]
    assert queue.abandon() == []
    assert not queue.has_work


@pytest.mark.parametrize(
    ("code", "reason", "failures", "expected"),
    [
        ("INTERNAL", "", 0, True),
        ("INTERNAL", "", 2, True),
        ("INTERNAL", "", 3, False),
        ("INTERNAL", "INTERNAL", 0, False),
        ("CANCELLED", "", 0, True),
        ("UNKNOWN", "", 0, True),
        ("UNIMPLEMENTED", "", 0, False),
        ("UNAUTHENTICATED", "", 0, False),
    ],
)
def test_a_stream_that_just_ended_is_opened_again_but_not_for_ever(
    code: str, reason: str, failures: int, expected: bool
) -> None:
    failed = error_of(Failure(code=code, message="no", reason=reason))
    assert commit_queue.is_broken(failed, failures) is expected


@pytest.mark.parametrize(
    ("sizes", "portions"),
    [([], []), ([10], [1]), ([10, 10, 10], [2, 1]), ([20, 5, 5], [1, 2]), ([5] * 8, [4, 4])],
)
def test_outcomes_are_told_in_portions_of_so_many_bytes(
    sizes: list[int], portions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_queue, "_PORTION_BYTES", 20)
    outcomes = [(handed_in("a", size=size), Revision(0, at)) for at, size in enumerate(sizes)]
    told = [list(each) for each in commit_queue.portions(outcomes)]
    assert [len(each) for each in told] == portions
    assert [outcome for each in told for outcome in each] == outcomes

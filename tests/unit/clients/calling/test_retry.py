"""offsetd_clients.calling.retry"""

import attrs
import pytest
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.errors import Failure, OffsetdError, error_of


@attrs.define
class Time:
    """A clock that moves when somebody sleeps."""

    now_s: float = 1000.0
    slept_s: list[float] = attrs.field(factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds

    def policy(self, **bounds_s: float) -> RetryPolicy:
        policy = RetryPolicy(sleep=self.sleep, monotonic_s=lambda: self.now_s)
        return attrs.evolve(policy, **bounds_s)


def error(code: str, *, retry_after_s: float | None = None) -> OffsetdError:
    return error_of(Failure(code=code, message="no", retry_after_s=retry_after_s))


@attrs.define
class Call:
    """Fails with each of `errors`, then answers."""

    errors: list[OffsetdError]
    timeouts_s: list[float] = attrs.field(factory=list)

    def __call__(self, timeout_s: float) -> str:
        self.timeouts_s.append(timeout_s)
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_a_call_is_made_again_while_the_server_is_unavailable() -> None:
    time, call = Time(), Call([error("UNAVAILABLE")] * 3)
    assert time.policy(timeout_s=30).call(call) == "done"
    assert len(call.timeouts_s) == 4
    assert all(0 <= waited <= 2 for waited in time.slept_s)


@pytest.mark.parametrize(
    "code",
    [
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "FAILED_PRECONDITION",
        "ABORTED",
        "RESOURCE_EXHAUSTED",
        "DATA_LOSS",
        "CANCELLED",
        "INTERNAL",
        "UNKNOWN",
    ],
)
def test_no_other_code_is_retried(code: str) -> None:
    time, call = Time(), Call([error(code)])
    with pytest.raises(OffsetdError) as raised:
        time.policy(timeout_s=30).call(call)
    assert raised.value.code == code
    assert (len(call.timeouts_s), time.slept_s) == (1, [])


def test_all_tries_share_one_deadline() -> None:
    time, call = Time(), Call([error("UNAVAILABLE")] * 1000)
    with pytest.raises(OffsetdError, match="no"):
        time.policy(timeout_s=20).call(call)
    assert sum(time.slept_s) < 20
    left = [20 - sum(time.slept_s[:tries]) for tries in range(len(call.timeouts_s))]
    assert call.timeouts_s == pytest.approx([min(each, 10) for each in left])


@pytest.mark.parametrize(
    ("policy", "timeouts_s"),
    [
        ({"timeout_s": 30}, [15, 15]),
        ({"timeout_s": 30, "try_timeout_s": 10}, [10, 10, 10]),
        ({"timeout_s": 30, "try_timeout_s": 300}, [30]),
        ({"timeout_s": 1.5}, [1, 0.5]),
        ({"timeout_s": 0.2}, [0.2]),
    ],
)
def test_a_try_without_an_answer_leaves_time_for_others_within_the_deadline(
    policy: dict[str, float], timeouts_s: list[float]
) -> None:
    time, given_s = Time(), []

    def hang(timeout_s: float) -> str:
        given_s.append(timeout_s)
        time.now_s += timeout_s
        raise error("DEADLINE_EXCEEDED")

    waitless = attrs.evolve(time.policy(**policy), wait_initial_s=1e-9, wait_max_s=1e-9)
    with pytest.raises(OffsetdError) as raised:
        waitless.call(hang)
    assert given_s == pytest.approx(timeouts_s)
    assert raised.value.code == "DEADLINE_EXCEEDED"
    assert raised.value.outcome_unknown


def test_a_limit_that_may_pass_is_tried_again_when_the_server_says() -> None:
    time, call = Time(), Call([error("RESOURCE_EXHAUSTED", retry_after_s=5.0)])
    assert time.policy(timeout_s=30).call(call) == "done"
    assert 5.0 <= time.slept_s[0] <= 7.0


@pytest.mark.parametrize("name", ["timeout_s", "try_timeout_s", "wait_initial_s", "wait_max_s"])
@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), -float("inf"), 86_401])
def test_a_time_that_is_none_is_refused(name: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=f"{name} = .*: must be seconds"):
        RetryPolicy(**{name: seconds})


def test_the_wait_is_at_least_what_the_server_asks_for() -> None:
    time, call = Time(), Call([error("UNAVAILABLE", retry_after_s=5.0)] * 2)
    time.policy(timeout_s=30).call(call)
    assert all(5.0 <= waited <= 7.0 for waited in time.slept_s)


def test_a_wait_that_would_pass_the_deadline_is_not_begun() -> None:
    time, call = Time(), Call([error("UNAVAILABLE", retry_after_s=60.0)])
    with pytest.raises(OffsetdError, match="no"):
        time.policy(timeout_s=30).call(call)
    assert time.slept_s == []


def test_a_wait_that_took_too_long_ends_with_what_went_wrong_before() -> None:
    time, call = Time(), Call([error("UNAVAILABLE", retry_after_s=29.0)])
    policy = attrs.evolve(time.policy(timeout_s=30), sleep=lambda seconds: time.sleep(seconds + 10))
    with pytest.raises(OffsetdError, match="no") as raised:
        policy.call(call)
    assert raised.value.code == "UNAVAILABLE"
    assert len(call.timeouts_s) == 1


def test_what_an_earlier_try_may_have_done_is_not_forgotten() -> None:
    """The connection was lost, the server came back and is loading: the write may be there."""
    loading = Failure(code="UNAVAILABLE", message="no", reason="COORDINATOR_LOAD_IN_PROGRESS")
    time = Time()
    cases: list[tuple[list[Failure | None], bool]] = [
        ([loading], False),
        ([None, loading, loading], True),
    ]
    for tries, unknown in cases:
        errors = [error_of(failure) if failure else error("UNAVAILABLE") for failure in tries]
        full = error_of(Failure(code="RESOURCE_EXHAUSTED", message="no", reason="DISK_FULL"))
        with pytest.raises(OffsetdError, match="no") as raised:
            time.policy(timeout_s=30).call(Call([*errors, full]))
        assert raised.value is full
        assert raised.value.outcome_unknown is unknown


def test_waits_are_spread_by_chance() -> None:
    waits = set()
    for _ in range(20):
        time = Time()
        time.policy(timeout_s=30).call(Call([error("UNAVAILABLE")]))
        waits.add(time.slept_s[0])
    assert len(waits) > 1

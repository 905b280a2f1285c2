"""offsetd_clients.retry"""

import attrs
import pytest
from offsetd_clients.errors import Failure, OffsetdError, error_of
from offsetd_clients.retry import RetryPolicy


@attrs.define
class Time:
    """A clock that moves when somebody sleeps."""

    now_s: float = 1000.0
    slept_s: list[float] = attrs.field(factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds

    def policy(self, *, timeout_s: float) -> RetryPolicy:
        return RetryPolicy(timeout_s=timeout_s, sleep=self.sleep, monotonic_s=lambda: self.now_s)


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
        "DEADLINE_EXCEEDED",
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
    assert call.timeouts_s == pytest.approx(left)


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

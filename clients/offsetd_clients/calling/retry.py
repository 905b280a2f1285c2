"""Retries calls while the server is unavailable, within one deadline for all attempts of a call."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from numbers import Real
from typing import Any, TypeVar

import attrs
import tenacity

from offsetd_clients.errors import DeadlineExceeded, OffsetdError

Answer = TypeVar("Answer")

TIMEOUT_S_MAX = 86_400.0
# A shorter deadline is not divided: the attempts would be too short for an answer.
TRY_TIMEOUT_S_MIN = 1.0
_TIMEOUT_S_MIN = 0.001
_DOUBLINGS_MAX = 30


def _check_seconds(_policy: object, attribute: Any, value: float | None) -> None:
    if value is None and attribute.default is None:
        return
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{attribute.name} = {value!r}: must be a number of seconds")
    if not (math.isfinite(value) and 0 < value <= TIMEOUT_S_MAX):
        raise ValueError(
            f"{attribute.name} = {value}: must be seconds, above 0 and at most {TIMEOUT_S_MAX:.0f}"
        )


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """Decides when and how long calls are retried.

    All durations are in seconds, finite and positive.

    `timeout_s` bounds all attempts of a call and the waits between them. Keep it below the server's
    `request.id.window.ms` (60 s by default): within that window the server answers a repeated write
    instead of applying it again. `try_timeout_s` bounds each attempt, so that a dead connection
    leaves time for another attempt. If it is None, it is half of `timeout_s`. `wait_initial_s`
    bounds the first wait; each further bound is twice as long, up to `wait_max_s`. The actual wait
    is drawn at random below the bound.
    """

    timeout_s: float = attrs.field(default=30.0, validator=_check_seconds)
    try_timeout_s: float | None = attrs.field(default=None, validator=_check_seconds)
    wait_initial_s: float = attrs.field(default=0.1, validator=_check_seconds)
    wait_max_s: float = attrs.field(default=2.0, validator=_check_seconds)
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic_s: Callable[[], float] = time.monotonic

    def call(self, attempt: Callable[[float], Answer]) -> Answer:
        """Calls `attempt` with the seconds that it may take; retries while its error is retriable.

        An attempt that used up its own time is retried too, while some of the deadline is left:
        every write carries a request id, so a late first attempt is not applied twice. Raises the
        error of the last attempt. Other errors, such as a failed comparison, are for the caller to
        handle.
        """
        tries = Tries(self)

        def attempt_in_time() -> Answer:
            tries.raise_first()
            try:
                return attempt(tries.next_timeout_s())
            except OffsetdError as error:
                tries.note(error)
                raise

        try:
            return attempt_in_time()
        except OffsetdError as error:
            tries.will_go_on(error)
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_tried_again),
            wait=tries.wait_s,
            stop=tries.is_out_of_time,
            sleep=self.sleep,
            reraise=True,
        )
        return retrying(attempt_in_time)

    async def call_async(self, attempt: Callable[[float], Awaitable[Answer]]) -> Answer:
        """Does what `call` does, for an awaitable attempt."""
        tries = Tries(self)

        async def attempt_in_time() -> Answer:
            tries.raise_first()
            try:
                return await attempt(tries.next_timeout_s())
            except OffsetdError as error:
                tries.note(error)
                raise

        try:
            return await attempt_in_time()
        except OffsetdError as error:
            tries.will_go_on(error)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(is_tried_again),
            wait=tries.wait_s,
            stop=tries.is_out_of_time,
            sleep=self.sleep_async,
            reraise=True,
        )
        return await retrying(attempt_in_time)

    def within(self, timeout_s: float) -> "RetryPolicy":
        """The same policy with a shorter timeout."""
        return attrs.evolve(self, timeout_s=max(min(timeout_s, self.timeout_s), _TIMEOUT_S_MIN))

    @property
    def try_time_s(self) -> float:
        """The time limit of one attempt, while that much of the deadline is left."""
        if self.try_timeout_s is not None:
            return self.try_timeout_s
        return max(self.timeout_s / 2, TRY_TIMEOUT_S_MIN)

    def wait_s(self, tries: int, error: OffsetdError) -> float:
        """The wait after `tries` attempts. The last attempt ended with `error`."""
        longest_s = self.wait_initial_s * 2 ** min(tries - 1, _DOUBLINGS_MAX)
        # Random waits keep clients that failed together from all retrying at the same time.
        spread_s = random.uniform(0, min(longest_s, self.wait_max_s))
        return spread_s + (error.failure.retry_after_s or 0.0)


class Tries:
    """The attempts of one call: it knows their time limits and errors, and when to give up.

    The first attempt runs without tenacity, which would cost a tenth of a call. If it fails,
    tenacity receives its error as if tenacity had made the attempt.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._deadline_s = policy.monotonic_s() + policy.timeout_s
        self._failure: OffsetdError | None = None
        self._first: OffsetdError | None = None

    def will_go_on(self, error: OffsetdError) -> None:
        """Notes the error of the first attempt. Raises it if a retry cannot help."""
        if not is_tried_again(error):
            raise error
        self._first = error

    def raise_first(self) -> None:
        """Raises the error of the first attempt, once, for tenacity."""
        first, self._first = self._first, None
        if first is not None:
            raise first

    def next_timeout_s(self) -> float:
        """The seconds for the next attempt. Raises the previous error if no time is left."""
        left_s = self._deadline_s - self._policy.monotonic_s()
        if left_s <= 0 and self._failure is not None:
            # A wait took longer than planned. This error says more than a missed deadline.
            raise self._failure
        return min(left_s, self._policy.try_time_s)

    def note(self, error: OffsetdError) -> None:
        """Notes the error that an attempt ended with."""
        if self._failure is not None and error is not self._failure:
            error.earlier_outcome_unknown = self._failure.outcome_unknown
        self._failure = error

    def wait_s(self, state: tenacity.RetryCallState) -> float:
        """The next wait, for tenacity."""
        assert self._failure is not None, "a wait comes behind a failure"
        return self._policy.wait_s(state.attempt_number, self._failure)

    def is_out_of_time(self, state: tenacity.RetryCallState) -> bool:
        """Whether the next wait would pass the deadline, for tenacity: such a wait is not begun."""
        return self._policy.monotonic_s() + state.upcoming_sleep >= self._deadline_s


def is_tried_again(error: BaseException) -> bool:
    """Whether another attempt may help, if there is time."""
    # After the deadline `stop` ends the retries, even if this returns True.
    return isinstance(error, DeadlineExceeded) or (
        isinstance(error, OffsetdError) and error.retriable
    )

"""When a call is made again: while the server is unavailable, within one deadline for all tries."""

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
# Below this a deadline is not shared out: the tries would be too short for an answer.
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
    """`timeout_s` bounds all tries and the waits between them, whose length chance spreads.

    `timeout_s` stays below the server's `request.id.window.ms` (60 s by default): up to then a
    write that is sent again is answered, not applied again. `try_timeout_s` bounds each try, so
    that a connection that went dead leaves time for another; None: half of `timeout_s`. All are
    in seconds, finite and positive.
    """

    timeout_s: float = attrs.field(default=30.0, validator=_check_seconds)
    try_timeout_s: float | None = attrs.field(default=None, validator=_check_seconds)
    wait_initial_s: float = attrs.field(default=0.1, validator=_check_seconds)
    wait_max_s: float = attrs.field(default=2.0, validator=_check_seconds)
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic_s: Callable[[], float] = time.monotonic

    def call(self, attempt: Callable[[float], Answer]) -> Answer:
        """Calls `attempt` with the seconds it may take, again while its error is retriable.

        So is the end of a try's own time while some of the deadline is left: whoever writes names
        the request, so a late first try is not applied twice. Raises the last attempt's error.
        What lost a comparison, say, is for the caller to decide.
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
        """As `call`, of what is to be awaited."""
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
        """The same with less time."""
        return attrs.evolve(self, timeout_s=max(min(timeout_s, self.timeout_s), _TIMEOUT_S_MIN))

    @property
    def try_time_s(self) -> float:
        """How long a try may take, while there is so much left of the deadline."""
        if self.try_timeout_s is not None:
            return self.try_timeout_s
        return max(self.timeout_s / 2, TRY_TIMEOUT_S_MIN)

    def wait_s(self, tries: int, error: OffsetdError) -> float:
        """How long to wait after so many tries, the last of which ended with `error`."""
        longest_s = self.wait_initial_s * 2 ** min(tries - 1, _DOUBLINGS_MAX)
        # All who were sent away at once must not come back at once.
        spread_s = random.uniform(0, min(longest_s, self.wait_max_s))
        return spread_s + (error.failure.retry_after_s or 0.0)


class Tries:
    """The tries of one call: how long each may take, what went wrong, and when it is enough.

    The first is made without tenacity, which would be a tenth of what a call costs; where that
    one fails, tenacity is told so as if it had made it.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._deadline_s = policy.monotonic_s() + policy.timeout_s
        self._failure: OffsetdError | None = None
        self._first: OffsetdError | None = None

    def will_go_on(self, error: OffsetdError) -> None:
        """The first try ended so; raises that if no other may help."""
        if not is_tried_again(error):
            raise error
        self._first = error

    def raise_first(self) -> None:
        """Raises what the first try ended with, once, for who has not seen it."""
        first, self._first = self._first, None
        if first is not None:
            raise first

    def next_timeout_s(self) -> float:
        """How long the next try may take. Raises what went wrong before, where time is up."""
        left_s = self._deadline_s - self._policy.monotonic_s()
        if left_s <= 0 and self._failure is not None:
            raise self._failure  # A wait took longer than asked. This says more than "too late".
        return min(left_s, self._policy.try_time_s)

    def note(self, error: OffsetdError) -> None:
        """What a try ended with."""
        if self._failure is not None and error is not self._failure:
            error.earlier_outcome_unknown = self._failure.outcome_unknown
        self._failure = error

    def wait_s(self, state: tenacity.RetryCallState) -> float:
        """For tenacity."""
        assert self._failure is not None, "a wait comes behind a failure"
        return self._policy.wait_s(state.attempt_number, self._failure)

    def is_out_of_time(self, state: tenacity.RetryCallState) -> bool:
        """For tenacity: a wait that would pass the deadline is not begun."""
        return self._policy.monotonic_s() + state.upcoming_sleep >= self._deadline_s


def is_tried_again(error: BaseException) -> bool:
    """Whether another try may help, while there is time."""
    # With the whole deadline spent, `stop` ends it, whatever this says.
    return isinstance(error, DeadlineExceeded) or (
        isinstance(error, OffsetdError) and error.retriable
    )

"""When a call is made again: while the server is unavailable, within one deadline for all tries."""

import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import tenacity

from offsetd_clients.errors import DeadlineExceeded, OffsetdError

Answer = TypeVar("Answer")

TIMEOUT_S_MAX = 86_400.0
# Below this a deadline is not shared out: the tries would be too short for an answer.
TRY_TIMEOUT_S_MIN = 1.0


def _check_seconds(_policy: object, attribute: Any, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and 0 < value <= TIMEOUT_S_MAX):
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
    monotonic_s: Callable[[], float] = time.monotonic

    def call(self, attempt: Callable[[float], Answer]) -> Answer:
        """Calls `attempt` with the seconds it may take, again while its error is retriable.

        So is the end of a try's own time while some of the deadline is left: whoever writes names
        the request, so a late first try is not applied twice. Raises the last attempt's error.
        What lost a comparison, say, is for the caller to decide.
        """
        deadline_s = self.monotonic_s() + self.timeout_s
        failure: OffsetdError | None = None

        def attempt_in_time() -> Answer:
            nonlocal failure
            left_s = deadline_s - self.monotonic_s()
            if left_s <= 0 and failure is not None:
                raise failure  # A wait took longer than asked. This says more than "too late".
            try:
                return attempt(min(left_s, self._try_timeout_s()))
            except OffsetdError as error:
                if failure is not None:
                    error.earlier_outcome_unknown = failure.outcome_unknown
                failure = error
                raise

        def is_out_of_time(state: tenacity.RetryCallState) -> bool:
            return self.monotonic_s() + state.upcoming_sleep >= deadline_s

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_retriable),
            wait=self._wait_s,
            stop=is_out_of_time,
            sleep=self.sleep,
            reraise=True,
        )
        return retrying(attempt_in_time)

    def _try_timeout_s(self) -> float:
        if self.try_timeout_s is not None:
            return self.try_timeout_s
        return max(self.timeout_s / 2, TRY_TIMEOUT_S_MIN)

    def _wait_s(self, state: tenacity.RetryCallState) -> float:
        spread = tenacity.wait_random_exponential(self.wait_initial_s, self.wait_max_s)(state)
        error = state.outcome.exception() if state.outcome else None
        asked = error.failure.retry_after_s if isinstance(error, OffsetdError) else None
        # All who were sent away at once must not come back at once.
        return spread + (asked or 0.0)


def _is_retriable(error: BaseException) -> bool:
    # With the whole deadline spent, `stop` ends it, whatever this says.
    return isinstance(error, DeadlineExceeded) or (
        isinstance(error, OffsetdError) and error.retriable
    )

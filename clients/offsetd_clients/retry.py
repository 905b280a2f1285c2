"""When a call is made again: while the server is unavailable, within one deadline for all tries."""

import time
from collections.abc import Callable
from typing import TypeVar

import attrs
import tenacity

from offsetd_clients.errors import OffsetdError

Answer = TypeVar("Answer")


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """`timeout_s` bounds all tries and the waits between them, whose length chance spreads.

    `timeout_s` stays below the server's `request.id.window.ms` (60 s by default): up to then a
    write that is sent again is answered, not applied again.
    """

    timeout_s: float = 30.0
    wait_initial_s: float = 0.1
    wait_max_s: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    monotonic_s: Callable[[], float] = time.monotonic

    def call(self, attempt: Callable[[float], Answer]) -> Answer:
        """Calls `attempt` with the seconds that are left, again while its error is retriable.

        Raises the last attempt's error. UNAVAILABLE is the only code that is retriable: what lost
        a comparison, say, is for the caller to decide.
        """
        deadline_s = self.monotonic_s() + self.timeout_s
        failure: OffsetdError | None = None

        def attempt_in_time() -> Answer:
            nonlocal failure
            left_s = deadline_s - self.monotonic_s()
            if left_s <= 0 and failure is not None:
                raise failure  # A wait took longer than asked. This says more than "too late".
            try:
                return attempt(left_s)
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

    def _wait_s(self, state: tenacity.RetryCallState) -> float:
        spread = tenacity.wait_random_exponential(self.wait_initial_s, self.wait_max_s)(state)
        error = state.outcome.exception() if state.outcome else None
        asked = error.failure.retry_after_s if isinstance(error, OffsetdError) else None
        # All who were sent away at once must not come back at once.
        return spread + (asked or 0.0)


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, OffsetdError) and error.retriable

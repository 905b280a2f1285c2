"""No more a second than is asked for."""

from __future__ import annotations

from offsetd_clients.migration.rates import RateLimit


def test_a_limit_spreads_what_is_done_and_saves_nothing_up() -> None:
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    limit = RateLimit(10, monotonic_s=lambda: now[0], sleep=sleep)
    for _ in range(4):
        limit.wait(5)
    assert now[0] == 101.5  # The first waits for nobody.
    now[0] += 60
    limit.wait(5)
    limit.wait(5)
    assert now[0] == 162.0
    RateLimit(None, monotonic_s=lambda: now[0], sleep=sleep).wait(10**9)
    assert now[0] == 162.0

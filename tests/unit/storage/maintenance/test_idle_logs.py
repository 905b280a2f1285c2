"""How long nothing was appended to a log."""

from __future__ import annotations

from kept_stores import P0, P1, P2, KeptStore
from offsetd_storage.maintenance.idle_logs import IdleLogs


def test_a_log_is_idle_from_the_first_look_that_found_its_end() -> None:
    kept = KeptStore()
    idle, logs = IdleLogs(kept.clock), [kept.store.logs[P0], kept.store.logs[P1]]
    kept.clock.advance(5000)  # Before the first look nobody knows.
    assert idle.look(logs) == {P0: 0, P1: 0}
    kept.clock.advance(1000)
    kept.put(P0, "k", "v")
    assert idle.look(logs) == {P0: 0, P1: 1000}
    kept.clock.advance(500)
    assert idle.look(logs) == {P0: 500, P1: 1500}
    kept.store.abandon()


def test_a_log_that_was_not_looked_at_for_once_begins_anew() -> None:
    kept = KeptStore()
    idle = IdleLogs(kept.clock)
    idle.look([kept.store.logs[P2]])
    idle.look([])
    kept.clock.advance(1000)
    assert idle.look([kept.store.logs[P2]]) == {P2: 0}
    kept.store.abandon()

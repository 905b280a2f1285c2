"""A crash undoes a generation that was begun and not settled: its number is given again."""

from __future__ import annotations

from classic_groups import DELAY_MS, REBALANCE_MS, Calls


def test_a_static_member_commits_only_once_it_has_asked_for_its_assignment() -> None:
    calls = Calls()
    leader, _ = calls.come_in()
    calls.join(instance_id="i")
    calls.advance(3 * DELAY_MS)
    (static,) = set(calls.group.members) - {leader}
    calls.sync(leader, 1, assignments={})
    calls.sync(static, 1, instance_id="i")

    calls.join(leader)
    calls.join(static, instance_id="i")
    assert calls.group.generation == 2
    calls.restart()
    assert calls.group.generation == 1
    lost = (static, 2, "i")
    assert calls.commit(*lost) == calls.heartbeat(*lost) == "ILLEGAL_GENERATION"

    calls.join(leader)
    for _ in range(REBALANCE_MS // DELAY_MS):
        calls.advance(DELAY_MS)
        for each in (leader, static):
            calls.heartbeat(each, 1, "i" if each == static else None)
    assert calls.group.generation == 2
    assert calls.commit(*lost) == "REBALANCE_IN_PROGRESS"
    calls.sync(leader, 2, assignments={})
    assert calls.commit(leader, 2) == ""
    assert calls.commit(*lost) == "REBALANCE_IN_PROGRESS"
    calls.sync(static, 2, instance_id="i")
    assert calls.commit(*lost) == ""

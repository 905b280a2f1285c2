"""Planted bugs of expiry: what goes too soon, goes although it is in use, or goes untold."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_RULES = "tests/unit/coordinator/test_expiry.py"
_SWEEP = "tests/unit/coordinator/test_expiry_sweep.py"
_GUARD = "tests/unit/coordinator/test_expiry_guard.py"
_NODE = "tests/unit/coordinator/test_expirer.py"
_SET_CLOCKS = "tests/unit/coordinator/test_set_clocks.py"

EXPIRY_MUTANTS = (
    Mutant(
        name="an offset expires a millisecond late",
        file=f"{_COORDINATOR}/kernels/table/expired_offsets.py",
        replace="        if now >= time:\n",
        by="        if now > time:\n",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="a commit to an empty group goes as in Kafka",
        file=f"{_COORDINATOR}/kernels/table/expired_offsets.py",
        replace="    since = max(commit, empty)\n",
        by="    since = commit if empty == NO_TIME else empty\n",
        caught_by=_RULES,
    ),
    Mutant(
        name="no expire timestamp is read as one (KAFKA-7403)",
        file=f"{_COORDINATOR}/kernels/table/expired_offsets.py",
        replace="    if expire > NO_TIME:\n        return expire\n",
        by="    if expire >= NO_TIME:\n        return expire\n",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="offsets go during a rebalance (KAFKA-13636)",
        file=f"{_COORDINATOR}/expiry/expiry_rules.py",
        replace="    return group.state is GroupState.STABLE and ",
        by="    return ",
        caught_by=_RULES,
    ),
    Mutant(
        name="a group goes although somebody has set that it never does",
        file=f"{_COORDINATOR}/expiry/expiry_rules.py",
        replace="        holds_all=is_held or not _expires_in_state(group),\n",
        by="        holds_all=not _expires_in_state(group),\n",
        caught_by=_RULES,
    ),
    Mutant(
        name="an offset goes for which a transaction is open",
        file=f"{_COORDINATOR}/expiry/expiry_sweep.py",
        replace="        stays = [is_read[each[0]] or each in pending for each in partitions]\n",
        by="        stays = [is_read[each[0]] for each in partitions]\n",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="a group goes that has nothing but an open transaction (KAFKA-19163)",
        file=f"{_COORDINATOR}/expiry/expiry_sweep.py",
        replace=(
            "        if rule.may_go and not rule.holds_all"
            " and not state.pending.partitions(group_id):"
        ),
        by="        if rule.may_go and not rule.holds_all:",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="offsets of a topic go that a member reads",
        file=f"{_COORDINATOR}/expiry/expiry_sweep.py",
        replace="        stays = [is_read[each[0]] or each in pending for each in partitions]\n",
        by="        stays = [each in pending for each in partitions]\n",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="a group goes with the first of its slices",
        file=f"{_COORDINATOR}/expiry/expiry_sweep.py",
        replace="            taken.size == count and rule.may_go",
        by="            rule.may_go",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="offsets expire in the grace after a long stop",
        file=f"{_COORDINATOR}/expiry/expiry_guard.py",
        replace="    if not -CLOCK_JUMP_MS <= stopped_ms <= grace_ms:\n        return grace_ms\n",
        by="    if not -CLOCK_JUMP_MS <= stopped_ms <= grace_ms:\n        return 0\n",
        caught_by=_GUARD,
    ),
    Mutant(
        name="a restart ends the grace",
        file=f"{_COORDINATOR}/expiry/expiry_guard.py",
        replace="    return min(max(last_up.grace_until_ms - now_ms, 0), grace_ms)\n",
        by="    return 0\n",
        caught_by=_NODE,
    ),
    Mutant(
        name="offsets expire right after the clock was set",
        file=f"{_COORDINATOR}/expiry/expiry_guard.py",
        replace="        self._jump_until_ms = monotonic_ms + period_ms\n",
        by="        self._jump_until_ms = monotonic_ms\n",
        caught_by=_NODE,
    ),
    Mutant(
        name="the server's time follows a clock that was set at once",
        file="storage/offsetd_storage/clock.py",
        replace="        gain_ms = min(max(-ahead_ms, 0), (monotonic_ms - self._looked_ms) // 2)\n",
        by="        gain_ms = max(-ahead_ms, 0)\n",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="a start does not go on from the time that is recorded",
        file=f"{_COORDINATOR}/background/expirer.py",
        replace="        clock.begin_at(time_ms)\n",
        by="        pass\n",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="an offset is old by the server's time alone",
        file=f"{_COORDINATOR}/background/expirer.py",
        replace="        now_ms = self.clock.age_now_ms()\n",
        by="        now_ms = self.clock.now_ms()\n",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="segments go because of their age right after the clock was set",
        file=f"{_COORDINATOR}/background/expirer.py",
        replace="        upkeep.retention.hold_age(max(held.remaining_ms or 0, check_ms))\n",
        by="",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="a segment that was written while the clock was back is old",
        file="storage/offsetd_storage/log/segment.py",
        replace="        self._date_file(None if unsynced.file else self._filled_ms)\n",
        by="        pass\n",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="time goes back with the clock",
        file="storage/offsetd_storage/clock.py",
        replace="        gain_ms = min(max(-ahead_ms, 0), (monotonic_ms - self._looked_ms) // 2)\n",
        by="        gain_ms = -ahead_ms\n",
        caught_by="tests/unit/storage/test_clock.py",
    ),
    Mutant(
        name="the clock is looked at between checks only",
        file=f"{_COORDINATOR}/background/expirer.py",
        replace="            if not self._observe() or self.held() is not None",
        by="            if self.held() is not None",
        caught_by=_NODE,
    ),
    Mutant(
        name="offsets expire in a broker's folder that nobody has looked at",
        file=f"{_COORDINATOR}/configuration/dynamic_settings.py",
        replace='        if self.enable == "auto" and is_from_elsewhere:\n',
        by='        if self.enable == "never" and is_from_elsewhere:\n',
        caught_by=_NODE,
    ),
    Mutant(
        name="tombstones are written before the audit log has them",
        file=f"{_COORDINATOR}/background/expirer.py",
        replace=(
            "        self._administration.note_events("
            "[expired_event(each, audit_ms) for each in found.expired])\n"
        ),
        by="",
        caught_by=_NODE,
    ),
    Mutant(
        name="offsets expire whose commits a low disk refused",
        file=f"{_COORDINATOR}/background/expirer.py",
        replace="now_ms if low_since_ms is None else min(low_since_ms, now_ms)",
        by="now_ms",
        caught_by=_NODE,
    ),
    Mutant(
        name="offsets expire as soon as a disk is low no more",
        file=f"{_COORDINATOR}/expiry/expiry_guard.py",
        replace="        self._low_disk_until_ms = monotonic_ms + period_ms\n",
        by="        self._low_disk_until_ms = monotonic_ms\n",
        caught_by=_GUARD,
    ),
    Mutant(
        name="a broker's folder counts as made here",
        file="storage/offsetd_storage/recovery/recovery.py",
        replace="is_from_elsewhere=survey.has_logs",
        by="is_from_elsewhere=False",
        caught_by="tests/unit/storage/test_recovery_of_brokers.py",
    ),
)

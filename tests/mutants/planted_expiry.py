"""Planted bugs of expiry: what goes too soon, goes although it is in use, or goes untold."""

from __future__ import annotations

from mutants.planted import Mutant

_RULES = "tests/unit/coordinator/expiry/test_expiry_rules.py"
_SWEEP = "tests/unit/coordinator/expiry/test_expiry_sweep.py"
_GUARD = "tests/unit/coordinator/expiry/test_expiry_guard.py"
_NODE = "tests/unit/coordinator/background/test_expirer.py"
_SET_CLOCKS = "tests/unit/coordinator/test_set_clocks.py"

EXPIRY_MUTANTS = (
    Mutant(
        name="an offset expires a millisecond late",
        where="offsetd_coordinator.kernels.table.expired_offsets:judge_entries",
        replace="if now >= time:",
        by="if now > time:",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="a commit to an empty group goes as in Kafka",
        where="offsetd_coordinator.kernels.table.expired_offsets:expiry_time",
        replace="since = max(commit, empty)",
        by="since = commit if empty == NO_TIME else empty",
        caught_by=_RULES,
    ),
    Mutant(
        name="no expire timestamp is read as one (KAFKA-7403)",
        where="offsetd_coordinator.kernels.table.expired_offsets:expiry_time",
        replace="if expire > NO_TIME:\n    return expire",
        by="if expire >= NO_TIME:\n    return expire",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="offsets go during a rebalance (KAFKA-13636)",
        where="offsetd_coordinator.expiry.expiry_rules:_expires_in_state",
        replace="return group.state is GroupState.STABLE and",
        by="return",
        caught_by=_RULES,
    ),
    Mutant(
        name="a group goes although somebody has set that it never does",
        where="offsetd_coordinator.expiry.expiry_rules:rule_of",
        replace="holds_all=is_held or not _expires_in_state(group),",
        by="holds_all=not _expires_in_state(group),",
        caught_by=_RULES,
    ),
    Mutant(
        name="an offset goes for which a transaction is open",
        where="offsetd_coordinator.expiry.expiry_sweep:_SliceMaking._without_used",
        replace="stays = [is_read[each[0]] or each in pending for each in partitions]",
        by="stays = [is_read[each[0]] for each in partitions]",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="a group goes that has nothing but an open transaction (KAFKA-19163)",
        where="offsetd_coordinator.expiry.expiry_sweep:ShardSweep._judge_recorded",
        replace="if rule.may_go and not rule.holds_all and not state.pending.partitions(group_id):",
        by="if rule.may_go and not rule.holds_all:",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="offsets of a topic go that a member reads",
        where="offsetd_coordinator.expiry.expiry_sweep:_SliceMaking._without_used",
        replace="stays = [is_read[each[0]] or each in pending for each in partitions]",
        by="stays = [each in pending for each in partitions]",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="a group goes with the first of its slices",
        where="offsetd_coordinator.expiry.expiry_sweep:_SliceMaking.judge",
        replace="taken.size == count and rule.may_go",
        by="rule.may_go",
        caught_by=_SWEEP,
    ),
    Mutant(
        name="offsets expire in the grace after a long stop",
        where="offsetd_coordinator.expiry.expiry_guard:grace_at_start_ms",
        replace="if not -CLOCK_JUMP_MS <= stopped_ms <= grace_ms:\n    return grace_ms",
        by="if not -CLOCK_JUMP_MS <= stopped_ms <= grace_ms:\n    return 0",
        caught_by=_GUARD,
    ),
    Mutant(
        name="a restart ends the grace",
        where="offsetd_coordinator.expiry.expiry_guard:grace_at_start_ms",
        replace="return min(max(last_up.grace_until_ms - now_ms, 0), grace_ms)",
        by="return 0",
        caught_by=_NODE,
    ),
    Mutant(
        name="offsets expire right after the clock was set",
        where="offsetd_coordinator.expiry.expiry_guard:ExpiryGuard.observe",
        replace="self._jump_until_ms = monotonic_ms + period_ms",
        by="self._jump_until_ms = monotonic_ms",
        caught_by=_NODE,
    ),
    Mutant(
        name="the server's time follows a clock that was set at once",
        where="offsetd_storage.clock:SteadyClock._followed",
        replace="gain_ms = min(max(-ahead_ms, 0), (monotonic_ms - self._looked_ms) // 2)",
        by="gain_ms = max(-ahead_ms, 0)",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="a start does not go on from the time that is recorded",
        where="offsetd_coordinator.background.expirer:begin_where_left",
        replace="clock.begin_at(time_ms)",
        by="pass",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="an offset is old by the server's time alone",
        where="offsetd_coordinator.background.expirer:Expirer._take_slice",
        replace="now_ms = self.clock.age_now_ms()",
        by="now_ms = self.clock.now_ms()",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="segments go because of their age right after the clock was set",
        where="offsetd_coordinator.background.expirer:Expirer._hold_retention",
        replace="upkeep.retention.hold_age(max(held.remaining_ms or 0, check_ms))",
        by="",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="a segment that was written while the clock was back is old",
        where="offsetd_storage.log.segment:Segment.sync",
        replace="self._date_file(None if unsynced.file else self._filled_ms)",
        by="pass",
        caught_by=_SET_CLOCKS,
    ),
    Mutant(
        name="time goes back with the clock",
        where="offsetd_storage.clock:SteadyClock._followed",
        replace="gain_ms = min(max(-ahead_ms, 0), (monotonic_ms - self._looked_ms) // 2)",
        by="gain_ms = -ahead_ms",
        caught_by="tests/unit/storage/test_clock.py",
    ),
    Mutant(
        name="the clock is looked at between checks only",
        where="offsetd_coordinator.background.expirer:Expirer._sweep",
        replace="if not self._observe() or self.held() is not None",
        by="if self.held() is not None",
        caught_by=_NODE,
    ),
    Mutant(
        name="offsets expire in a broker's folder that nobody has looked at",
        where="offsetd_coordinator.configuration.dynamic_settings:ExpiryConfig.hold",
        replace='if self.enable == "auto" and is_from_elsewhere:',
        by='if self.enable == "never" and is_from_elsewhere:',
        caught_by=_NODE,
    ),
    Mutant(
        name="tombstones are written before the audit log has them",
        where="offsetd_coordinator.background.expirer:Expirer._take_slice",
        replace=(
            "self._administration.note_events([expired_event(each, audit_ms) for each in "
            "found.expired])"
        ),
        by="",
        caught_by=_NODE,
    ),
    Mutant(
        name="offsets expire whose commits a low disk refused",
        where="offsetd_coordinator.background.expirer:Expirer._take_slice",
        replace="now_ms if low_since_ms is None else min(low_since_ms, now_ms)",
        by="now_ms",
        caught_by=_NODE,
    ),
    Mutant(
        name="offsets expire as soon as a disk is low no more",
        where="offsetd_coordinator.expiry.expiry_guard:ExpiryGuard.note_disk_low",
        replace="self._low_disk_until_ms = monotonic_ms + period_ms",
        by="self._low_disk_until_ms = monotonic_ms",
        caught_by=_GUARD,
    ),
    Mutant(
        name="a broker's folder counts as made here",
        where="offsetd_storage.recovery.folder_recovery:recover_folder",
        replace="is_from_elsewhere=survey.has_logs",
        by="is_from_elsewhere=False",
        caught_by="tests/unit/storage/recovery/test_recovery_of_brokers.py",
    ),
)

"""Planted bugs of groups with members, and what notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_PACKAGE = "coordinator/offsetd_coordinator/membership"
_UNIT = "tests/unit/coordinator"

MEMBERSHIP_MUTANTS = (
    Mutant(
        name="a member of an old generation commits",
        file=f"{_PACKAGE}/classic_group.py",
        replace="        self.find_in_generation(identity)\n        if self.state is COMPLETING:\n",
        by="        self.find(identity)\n        if self.state is COMPLETING:\n",
        caught_by=f"{_UNIT}/test_membership_classic_group.py",
    ),
    Mutant(
        name="a static member's old self is not fenced",
        file=f"{_PACKAGE}/classic_group.py",
        replace="            if static.member_id != member_id:\n",
        by="            if False:\n",
        caught_by=f"{_UNIT}/test_membership_joining.py",
    ),
    Mutant(
        name="a leader that has not joined again leads",
        file=f"{_PACKAGE}/classic_group.py",
        replace="        if leader is not None and leader.join_token is None:\n",
        by="        if False:\n",
        caught_by=f"{_UNIT}/test_membership_joining.py",
    ),
    Mutant(
        name="a generation begins without a new number",
        file=f"{_PACKAGE}/classic_group.py",
        replace="        self.generation += 1\n",
        by="        self.generation += bool(self.members)\n",
        caught_by=f"{_UNIT}/test_membership_membership.py",
    ),
    Mutant(
        name="assignments are given out although they could not be written",
        file="coordinator/offsetd_coordinator/membership/group_membership.py",
        replace="        if assignments is not None:\n            if refusal is None:\n",
        by="        if assignments is not None:\n            if True:\n",
        caught_by=f"{_UNIT}/test_membership_rebalance.py",
    ),
    Mutant(
        name="an empty group that could not be written is taken as written",
        file="coordinator/offsetd_coordinator/membership/group_membership.py",
        replace="                self._rebalances.retry_record_later(group, now)\n",
        by="                group.is_recorded = True\n",
        caught_by=f"{_UNIT}/test_membership_membership.py",
    ),
    Mutant(
        name="who is removed while it waits is not answered",
        file=f"{_PACKAGE}/rebalance.py",
        replace="        for token in (join_token, sync_token):\n",
        by="        for token in (join_token,):\n",
        caught_by=f"{_UNIT}/test_membership_membership.py",
    ),
    Mutant(
        name="a rebalance begins behind the back of those who wait to sync",
        file=f"{_PACKAGE}/rebalance.py",
        replace="        if group.state is COMPLETING:\n            self.refuse_syncs(",
        by="        if False:\n            self.refuse_syncs(",
        caught_by=f"{_UNIT}/test_membership_rebalance.py",
    ),
    Mutant(
        name="static members are dropped with those who do not join again",
        file=f"{_PACKAGE}/rebalance.py",
        replace="            if member.join_token is None and member.instance_id is None:\n",
        by="            if member.join_token is None:\n",
        caught_by=f"{_UNIT}/test_membership_joining.py",
    ),
    Mutant(
        name="nobody looks whether members have synced in time",
        file=f"{_PACKAGE}/rebalance.py",
        replace="        self._set(group, Timer.SYNC, now, group.rebalance_timeout_ms)\n",
        by="",
        caught_by=f"{_UNIT}/test_membership_rebalance.py",
    ),
    Mutant(
        name="a moved deadline comes at its old time",
        file=f"{_PACKAGE}/deadlines.py",
        replace="            if due_ms > now_ms:\n",
        by="            if False:\n",
        caught_by=f"{_UNIT}/test_membership_deadlines.py",
    ),
    Mutant(
        name="members are answered before the group's record is durable",
        file="coordinator/offsetd_coordinator/runtime/member_calls.py",
        replace="        waiting = self._runtime.durable(ticket)\n",
        by="        waiting = None\n",
        caught_by=f"{_UNIT}/test_member_calls.py",
    ),
    Mutant(
        name="the removal of all members, asked for again, removes who came since",
        file="coordinator/offsetd_coordinator/services/member_removal.py",
        replace="            recorded = administration.find(METHOD, received.request_id)\n",
        by="            pass\n",
        caught_by=f"{_UNIT}/test_service_member_removal.py",
    ),
    Mutant(
        name="what a removal would do is done",
        file="coordinator/offsetd_coordinator/services/member_removal.py",
        replace="            if going and not received.validate_only:\n",
        by="            if going:\n",
        caught_by=f"{_UNIT}/test_service_member_removal.py",
    ),
    Mutant(
        name="a member's commit is no sign of life",
        file="coordinator/offsetd_coordinator/runtime/member_calls.py",
        replace="        membership.note_commit(group_id, member, self._runtime.moment())\n",
        by="        return\n",
        caught_by=f"{_UNIT}/test_member_calls.py",
    ),
    Mutant(
        name="members' sessions end while their server is paused",
        file="coordinator/offsetd_coordinator/runtime/awake_clock.py",
        replace="            self._paused_ms += silent_ms - PAUSE_MS_MAX\n",
        by="",
        caught_by=f"{_UNIT}/test_awake_clock.py",
    ),
    Mutant(
        name="a member of a lost generation commits by its number",
        file=f"{_PACKAGE}/classic_group.py",
        replace="        if identity.member_id in self.unsynced_ids:\n",
        by="        if False:\n",
        caught_by=f"{_UNIT}/test_membership_lost_generations.py",
    ),
    Mutant(
        name="sticky leaves a member with two partitions more than another",
        file="clients/offsetd_clients/assignors.py",
        replace="                if has - len(assignment[takers[partition.topic]]) >= 2\n",
        by="                if has - len(assignment[takers[partition.topic]]) >= 3\n",
        caught_by="tests/unit/clients/test_assignors.py",
    ),
    Mutant(
        name="sessions of KIP-848 members never begin",
        file="coordinator/offsetd_coordinator/membership/group_membership.py",
        replace="                self._await_consumer_sessions(records, now)\n",
        by="",
        caught_by="tests/unit/coordinator/test_member_records.py",
    ),
    Mutant(
        name="a group that has only promised an id is not there for a deletion",
        file="coordinator/offsetd_coordinator/shard/shard_changes.py",
        replace="deletion = group_to_delete(state, request, live, has_promised=has_promised)",
        by="deletion = group_to_delete(state, request, live)",
        caught_by=f"{_UNIT}/test_member_calls.py",
    ),
    Mutant(
        name="a generation of a group that has only promised an id names the group",
        file="coordinator/offsetd_coordinator/shard/commit_decisions.py",
        replace="                    or self._membership.has_promised(group_id)\n",
        by="",
        caught_by=f"{_UNIT}/test_member_calls.py",
    ),
    Mutant(
        name="a member id without a generation is not let in to an empty group",
        file="coordinator/offsetd_coordinator/state/commit_rules.py",
        replace="    if member is None or member.generation < 0:\n",
        by="    if member is None:\n",
        caught_by="tests/interop/test_half_known_groups.py",
    ),
)

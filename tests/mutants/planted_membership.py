"""Planted bugs of groups with members, and what notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_UNIT = "tests/unit/coordinator"

MEMBERSHIP_MUTANTS = (
    Mutant(
        name="a member of an old generation commits",
        where="offsetd_coordinator.membership.classic_group:ClassicGroup.check_commit",
        replace="self.find_in_generation(identity)\nif self.state is COMPLETING:",
        by="self.find(identity)\nif self.state is COMPLETING:",
        caught_by=f"{_UNIT}/membership/test_classic_group.py",
    ),
    Mutant(
        name="a static member's old self is not fenced",
        where="offsetd_coordinator.membership.classic_group:ClassicGroup.find",
        replace="if static.member_id != member_id:",
        by="if False:",
        caught_by=f"{_UNIT}/membership/test_joining.py",
    ),
    Mutant(
        name="a leader that has not joined again leads",
        where="offsetd_coordinator.membership.classic_group:ClassicGroup.elect_leader",
        replace="if leader is not None and leader.join_token is None:",
        by="if False:",
        caught_by=f"{_UNIT}/membership/test_joining.py",
    ),
    Mutant(
        name="a generation begins without a new number",
        where="offsetd_coordinator.membership.classic_group:ClassicGroup.begin_generation",
        replace="self.generation += 1",
        by="self.generation += bool(self.members)",
        caught_by=f"{_UNIT}/membership/test_group_membership.py",
    ),
    Mutant(
        name="assignments are given out although they could not be written",
        where="offsetd_coordinator.membership.group_membership:Membership.settle",
        replace="if assignments is not None:\n    if refusal is None:",
        by="if assignments is not None:\n    if True:",
        caught_by=f"{_UNIT}/membership/test_rebalance.py",
    ),
    Mutant(
        name="an empty group that could not be written is taken as written",
        where="offsetd_coordinator.membership.group_membership:Membership.settle",
        replace="self._rebalances.retry_record_later(group, now)",
        by="group.is_recorded = True",
        caught_by=f"{_UNIT}/membership/test_group_membership.py",
    ),
    Mutant(
        name="who is removed while it waits is not answered",
        where="offsetd_coordinator.membership.rebalance:Rebalances.remove",
        replace="for token in (join_token, sync_token):",
        by="for token in (join_token,):",
        caught_by=f"{_UNIT}/membership/test_group_membership.py",
    ),
    Mutant(
        name="a rebalance begins behind the back of those who wait to sync",
        where="offsetd_coordinator.membership.rebalance:Rebalances.prepare",
        replace="if group.state is COMPLETING:\n    self.refuse_syncs(",
        by="if False:\n    self.refuse_syncs(",
        caught_by=f"{_UNIT}/membership/test_rebalance.py",
    ),
    Mutant(
        name="static members are dropped with those who do not join again",
        where="offsetd_coordinator.membership.rebalance:Rebalances.complete_join",
        replace="if member.join_token is None and member.instance_id is None:",
        by="if member.join_token is None:",
        caught_by=f"{_UNIT}/membership/test_joining.py",
    ),
    Mutant(
        name="nobody looks whether members have synced in time",
        where="offsetd_coordinator.membership.rebalance:Rebalances.complete_join",
        replace="self._set(group, Timer.SYNC, now, group.rebalance_timeout_ms)",
        by="",
        caught_by=f"{_UNIT}/membership/test_rebalance.py",
    ),
    Mutant(
        name="a moved deadline comes at its old time",
        where="offsetd_coordinator.membership.deadlines:Deadlines.expired",
        replace="if due_ms > now_ms:",
        by="if False:",
        caught_by=f"{_UNIT}/membership/test_deadlines.py",
    ),
    Mutant(
        name="members are answered before the group's record is durable",
        where="offsetd_coordinator.runtime.member_calls:MemberCalls._ask",
        replace="await until_durable(self._runtime.log, ticket)",
        by="pass",
        caught_by=f"{_UNIT}/runtime/test_member_calls.py",
    ),
    Mutant(
        name="the removal of all members, asked for again, removes who came since",
        where="offsetd_coordinator.services.member_removal:MemberRemoval.remove_members",
        replace="recorded = administration.find(METHOD, received.request_id)",
        by="pass",
        caught_by=f"{_UNIT}/services/test_member_removal.py",
    ),
    Mutant(
        name="what a removal would do is done",
        where="offsetd_coordinator.services.member_removal:MemberRemoval.remove_members",
        replace="if going and not received.validate_only:",
        by="if going:",
        caught_by=f"{_UNIT}/services/test_member_removal.py",
    ),
    Mutant(
        name="a member's commit is no sign of life",
        where="offsetd_coordinator.runtime.runtime:Runtime._note_life",
        replace="shard.membership.note_commit(request.group_id, request.member, self.moment())",
        by="return",
        caught_by=f"{_UNIT}/runtime/test_member_calls.py",
    ),
    Mutant(
        name="members' sessions end while their server is paused",
        where="offsetd_coordinator.runtime.awake_clock:AwakeClock.monotonic_ms",
        replace="self._paused_ms += silent_ms - PAUSE_MS_MAX",
        by="",
        caught_by=f"{_UNIT}/runtime/test_awake_clock.py",
    ),
    Mutant(
        name="a member of a lost generation commits by its number",
        where="offsetd_coordinator.membership.classic_group:ClassicGroup.check_commit",
        replace="if identity.member_id in self.unsynced_ids:",
        by="if False:",
        caught_by=f"{_UNIT}/membership/test_lost_generations.py",
    ),
    Mutant(
        name="sticky leaves a member with two partitions more than another",
        where="offsetd_clients.assignors:_balance",
        replace="if has - len(assignment[takers[partition.topic]]) >= 2",
        by="if has - len(assignment[takers[partition.topic]]) >= 3",
        caught_by="tests/unit/clients/test_assignors.py",
    ),
    Mutant(
        name="sessions of KIP-848 members never begin",
        where="offsetd_coordinator.membership.group_membership:Membership.restore",
        replace="self._await_consumer_sessions(records, now)",
        by="",
        caught_by="tests/unit/coordinator/shard/test_member_records.py",
    ),
    Mutant(
        name="a group that has only promised an id is not there for a deletion",
        where="offsetd_coordinator.state.offset_deletion:group_to_delete",
        replace="or writers.has_promised(group_id)",
        by="",
        caught_by=f"{_UNIT}/runtime/test_member_calls.py",
    ),
    Mutant(
        name="a generation of a group that has only promised an id names the group",
        where="offsetd_coordinator.state.write_authorisation:WriteAuthorisation.commit_refusal",
        replace="or self._membership.has_promised(group_id)",
        by="",
        caught_by=f"{_UNIT}/runtime/test_member_calls.py",
    ),
    Mutant(
        name="a member id without a generation is not let in to an empty group",
        where="offsetd_coordinator.state.write_authorisation:check_commit",
        replace="if member is None or member.generation < 0:",
        by="if member is None:",
        caught_by="tests/interop/test_half_known_groups.py",
    ),
)

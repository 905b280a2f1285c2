"""Planted bugs of leases and of what is set for groups."""

from __future__ import annotations

from mutants.planted import Mutant

_CASES = "tests/unit/coordinator/shard/test_group_changes.py"
_EPOCHS = "tests/property/test_lease_epochs.py"

LEASE_MUTANTS = (
    Mutant(
        name="an older epoch still commits",
        where="offsetd_coordinator.state.leases:check_epoch",
        replace="if status is not None and status.lease.epoch == epoch:",
        by="if status is not None and status.lease.epoch >= epoch:",
        caught_by=_EPOCHS,
    ),
    Mutant(
        name="an expired lease's epoch is over before anybody acquires",
        where="offsetd_coordinator.state.leases:check_epoch",
        replace="if status is not None and status.lease.epoch == epoch:",
        by="if status is not None and status.is_held and status.lease.epoch == epoch:",
        caught_by=_CASES,
    ),
    Mutant(
        name="commits without an epoch overwrite a held lease's",
        where="offsetd_coordinator.state.leases:Leases.check_writer",
        replace=(
            "    check_epoch(group_id, status, epoch)\nelse:\n    check_not_held(group_id, status)"
        ),
        by="    check_epoch(group_id, status, epoch)",
        caught_by=_EPOCHS,
    ),
    Mutant(
        name="a change of the retention takes the lease away",
        where="offsetd_coordinator.shard.settings_decisions:_update",
        replace="before = records.settings or GroupSettings()",
        by="before = attrs.evolve(records.settings or GroupSettings(), lease=None)",
        caught_by=_CASES,
    ),
    Mutant(
        name="the same holder keeps its epoch",
        where="offsetd_coordinator.shard.settings_decisions:_acquire",
        replace="lease=_granted(request, epoch=OWN_OFFSET, now_ms=now.wall_ms)",
        by=(
            "lease=_granted(\n"
            "    request,\n"
            "    epoch=OWN_OFFSET if status is None else status.lease.epoch,\n"
            "    now_ms=now.wall_ms,\n"
            ")"
        ),
        caught_by=_EPOCHS,
    ),
    Mutant(
        name="a deleted group leaves its settings",
        where="offsetd_storage.offsets_topic.group_records:GroupRecords.tombstone_keys",
        replace="keys.append(self._settings_key)",
        by="pass",
        caught_by=_CASES,
    ),
    Mutant(
        name="leases are over at a restart",
        where="offsetd_coordinator.shard.shard:Shard.restore_members",
        replace="self.leases.loaded_ms = now.monotonic_ms",
        by="self.leases.loaded_ms = now.monotonic_ms - 10**12",
        caught_by=_CASES,
    ),
    Mutant(
        name="members join beside a lease",
        where="offsetd_coordinator.membership.group_membership:Membership.join",
        replace="self._check_lease(request.group_id, now)",
        by="",
        caught_by=_CASES,
    ),
    Mutant(
        name="the retention of a commit is not written",
        where="offsetd_coordinator.shard.commit_decisions:CommitDecisions.decide",
        replace="-1 if commit.retention_ms < 0 else now_ms + commit.retention_ms,",
        by="-1,",
        caught_by=_CASES,
    ),
)

"""Planted bugs of leases and of what is set for groups."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_LEASES = f"{_COORDINATOR}/shard/leases.py"
_CHANGES = f"{_COORDINATOR}/shard/group_changes.py"
_CASES = "tests/unit/coordinator/test_group_changes.py"
_EPOCHS = "tests/property/test_lease_epochs.py"

LEASE_MUTANTS = (
    Mutant(
        name="an older epoch still commits",
        file=_LEASES,
        replace="    if status is not None and status.lease.epoch == epoch:\n",
        by="    if status is not None and status.lease.epoch >= epoch:\n",
        caught_by=_EPOCHS,
    ),
    Mutant(
        name="an expired lease's epoch is over before anybody acquires",
        file=_LEASES,
        replace="    if status is not None and status.lease.epoch == epoch:\n",
        by="    if status is not None and status.is_held and status.lease.epoch == epoch:\n",
        caught_by=_CASES,
    ),
    Mutant(
        name="commits without an epoch overwrite a held lease's",
        file=_LEASES,
        replace=(
            "            check_epoch(group_id, status, epoch)\n"
            "        else:\n"
            "            check_not_held(group_id, status)\n"
        ),
        by="            check_epoch(group_id, status, epoch)\n",
        caught_by=_EPOCHS,
    ),
    Mutant(
        name="a change of the retention takes the lease away",
        file=_CHANGES,
        replace="    before = records.settings or GroupSettings()\n",
        by="    before = attrs.evolve(records.settings or GroupSettings(), lease=None)\n",
        caught_by=_CASES,
    ),
    Mutant(
        name="the same holder keeps its epoch",
        file=_CHANGES,
        replace="        lease=_granted(request, epoch=OWN_OFFSET, now_ms=now.wall_ms),\n",
        by=(
            "        lease=_granted(\n"
            "            request,\n"
            "            epoch=OWN_OFFSET if status is None else status.lease.epoch,\n"
            "            now_ms=now.wall_ms,\n"
            "        ),\n"
        ),
        caught_by=_EPOCHS,
    ),
    Mutant(
        name="a deleted group leaves its settings",
        file="storage/offsetd_storage/offsets_topic/group_records.py",
        replace="            keys.append(self._settings_key)\n",
        by="            pass\n",
        caught_by=_CASES,
    ),
    Mutant(
        name="leases are over at a restart",
        file=f"{_COORDINATOR}/shard/shard.py",
        replace="        self.leases.loaded_ms = now.monotonic_ms\n",
        by="        self.leases.loaded_ms = now.monotonic_ms - 10**12\n",
        caught_by=_CASES,
    ),
    Mutant(
        name="members join beside a lease",
        file=f"{_COORDINATOR}/membership/group_membership.py",
        replace="            self._check_lease(request.group_id, now)\n",
        by="",
        caught_by=_CASES,
    ),
    Mutant(
        name="the retention of a commit is not written",
        file=f"{_COORDINATOR}/shard/commit_decisions.py",
        replace="            -1 if commit.retention_ms < 0 else now_ms + commit.retention_ms,\n",
        by="            -1,\n",
        caught_by=_CASES,
    ),
)

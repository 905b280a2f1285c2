"""Planted bugs that drawn lives of groups, and histories of many clients, notice."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_MACHINE = "tests/property/test_group_machine.py"
_HISTORIES = "tests/fault/test_histories.py"

LIFE_MUTANTS = (
    Mutant(
        name="who comes without an epoch writes beside a lease that is held",
        file=f"{_COORDINATOR}/shard/leases.py",
        replace="    if status is not None and status.is_held:\n",
        by="    if status is not None and status.is_held and not status.lease.holder:\n",
        caught_by=_HISTORIES,
    ),
    Mutant(
        name="topics that members read lose their offsets",
        file=f"{_COORDINATOR}/state/offset_deletion.py",
        replace="        if group.is_subscribed(topic.decode()):\n",
        by="        if False:\n",
        caught_by=_MACHINE,
    ),
    Mutant(
        name="what a lease is held on expires",
        file=f"{_COORDINATOR}/expiry/expiry_sweep.py",
        replace="            has_lease=self._has_lease(group_id),\n",
        by="            has_lease=False,\n",
        caught_by=_MACHINE,
    ),
)

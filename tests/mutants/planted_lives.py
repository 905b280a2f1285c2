"""Planted bugs that drawn lives of groups, and histories of many clients, notice."""

from __future__ import annotations

from mutants.planted import Mutant

_MACHINE = "tests/property/test_group_machine.py"
_HISTORIES = "tests/fault/test_histories.py"

LIFE_MUTANTS = (
    Mutant(
        name="who comes without an epoch writes beside a lease that is held",
        where="offsetd_coordinator.state.leases:check_not_held",
        replace="if status is not None and status.is_held:",
        by="if status is not None and status.is_held and not status.lease.holder:",
        caught_by=_HISTORIES,
    ),
    Mutant(
        name="topics that members read lose their offsets",
        where="offsetd_coordinator.state.write_authorisation:_check_unread",
        replace="if group.is_subscribed(topic.decode()):",
        by="if False:",
        caught_by=_MACHINE,
    ),
    Mutant(
        name="what a lease is held on expires",
        where="offsetd_coordinator.expiry.expiry_sweep:ShardRules.rule",
        replace="has_lease=self._has_lease(group_id)",
        by="has_lease=False",
        caught_by=_MACHINE,
    ),
)

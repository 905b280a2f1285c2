"""Changes that administrators make: audited, made durable, and then applied.

The order is: write the audit record, write the settings' records, flush both at once, apply the
change, answer. So a crash cannot revert a setting that has taken effect.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

import structlog

from offsetd_coordinator.administration.audit import RecordedEvent
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)
from offsetd_coordinator.runtime.commit_log import until_durable
from offsetd_coordinator.runtime.storage_refusals import quarantined_own_log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.topic_configs import TopicConfigs
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.administration.audit import AuditEvent, AuditLog
    from offsetd_coordinator.configuration.acl_state import AclsReply, ChangeAcls
    from offsetd_coordinator.configuration.config_state import (
        AppliedConfigs,
        ConfigDecision,
        ConfigState,
        UpdateConfig,
    )
    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.large_groups.large_changes import LargeChanges, Room
    from offsetd_coordinator.requests import Decision, Reply, Request
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.security.acl import Acl

_log = structlog.get_logger(__name__)


class SharedRules(Protocol):
    """The access rules that all nodes of a cluster share."""

    @property
    def acls(self) -> frozenset[Acl]:
        """All rules that this node has read. Each change makes another set."""

    @property
    def unreadable_records(self) -> int:
        """Records of rules that this version cannot read."""

    def call_on_change(self, callback: Callable[[], None]) -> None:
        """Calls `callback` on the event loop after each change by any node."""

    async def catch_up(self) -> None:
        """Returns once the changes that nodes made before the call are read."""

    async def change(
        self, request: ChangeAcls, before_write: Callable[[AclsReply], Awaitable[None]]
    ) -> AclsReply:
        """Returns once a change counts here. `before_write` is awaited if anything changes."""


class ApplyFailed(Exception):
    """A defect: settings that were checked and stored could not be applied."""


class Administration:
    """The settings, the access rules and the audit log of a node.

    Every method is for the event loop's thread. `apply` puts settings in force, and gets the doubt
    about them. It is called on a thread, one call at a time, in the order of the changes.
    `apply_acls` puts access rules in force, all that are stored: at once, and after each change, in
    order. It is called on the event loop. `preview` returns what a cleaning round over a partition
    would leave, with or without its active segment. A preview takes long and needs much memory, so
    call it on a thread, one call at a time.
    """

    def __init__(
        self,
        runtime: Runtime,
        large_changes: LargeChanges,
        shard: ConfigState,
        audit: AuditLog,
        *,
        clock: Clock,
        apply: Callable[[TopicConfigs, str | None], None],
        preview: Callable[[TopicPartition, bool], CleanReport | None],
        doubt: Callable[[], str | None] = lambda: None,
        apply_acls: Callable[[frozenset[Acl]], None] = lambda _acls: None,
        note_acls_doubt: Callable[[str | None], None] = lambda _doubt: None,
        shared_rules: SharedRules | None = None,
    ) -> None:
        """`doubt` returns the reason why settings in force may differ from those set, or None.

        `shared_rules` are those of a cluster; the rules of the shard are not used then.
        """
        self.clock = clock
        self.preview = preview
        self._log = runtime.log
        self._large_changes = large_changes
        self._shard = shard
        self._audit = audit
        self._apply = apply
        self._doubt = doubt
        self._config_ticket = 0
        self._audit_ticket = 0
        self._applying: asyncio.Task[None] | None = None
        self._apply_acls = apply_acls
        self._applying_acls: asyncio.Task[None] | None = None
        self._note_acls_doubt = note_acls_doubt
        self._shared_rules = shared_rules
        self._applied_acls = self.stored_acls
        self._put_acls_in_force(self._applied_acls)
        if shared_rules is not None:
            shared_rules.call_on_change(lambda: self._put_acls_in_force(shared_rules.acls))

    @property
    def settings_doubt(self) -> str | None:
        """The reason why the settings in force must not expire, clean or delete data, or None."""
        return self._doubt()

    async def applied(self) -> AppliedConfigs:
        """The settings, durable and in force. Raises StorageUnavailable."""
        applied = self._shard.applied
        with contextlib.suppress(ApplyFailed):  # The change's caller got this error.
            await self._until_applied()
        return applied

    async def update_config(self, request: UpdateConfig, event: AuditEvent) -> ConfigDecision:
        """Decides on a change of settings; returns once the change is durable and in force.

        The change continues even if the caller is cancelled. Raises the refusal, and the errors of
        `CommitLog.append_internal`.
        """
        damage = self._log.damage(CONFIG_PARTITION)
        if damage is not None:  # An update that would write nothing is refused too.
            raise quarantined_own_log(CONFIG_PARTITION, damage)
        decision = self._shard.decide(request, self.clock.now_ms())
        if decision.batch is not None and decision.configs is not None:
            self._append_event(event)
            self._config_ticket = self._log.append_internal(
                CONFIG_PARTITION, decision.batch, replay=self._shard.replay
            )
            change = self._apply_in_turn(self._applying, self._config_ticket, decision.configs)
            self._applying = asyncio.ensure_future(change)
        await self._until_applied()
        if decision.refusal is not None:
            raise decision.refusal
        return decision

    @property
    def applied_acls(self) -> frozenset[Acl]:
        """The access rules that are durable. Each change makes another set."""
        return self._applied_acls

    @property
    def stored_acls(self) -> frozenset[Acl]:
        """The access rules that are stored; the newest may not be durable yet."""
        return self._shard.rules.acls if self._shared_rules is None else self._shared_rules.acls

    async def newest_acls(self) -> frozenset[Acl]:
        """The stored access rules. In a cluster, with all that other nodes have changed before.

        Raises TopicUnreadable.
        """
        if self._shared_rules is not None:
            await self._shared_rules.catch_up()
        return self.stored_acls

    @property
    def acls_doubt(self) -> str | None:
        """The reason why stored access rules may be missing, among them some that deny, or None."""
        if self._shared_rules is not None:
            unreadable = self._shared_rules.unreadable_records
            return f"{unreadable} of the cluster's rules cannot be read" if unreadable else None
        damage, shard = self._log.damage(CONFIG_PARTITION), self._shard
        if damage is not None:
            return f"their log is damaged: {damage}"
        # Records of newer versions may be rules, too.
        unreadable = (
            shard.rules.unreadable_records + shard.unknown_records + shard.undecodable_records
        )
        if not unreadable:
            return None
        return f"{unreadable} of the records of {CONFIG_PARTITION.topic} cannot be read"

    async def change_acls(
        self, request: ChangeAcls, event_of: Callable[[AclsReply], AuditEvent]
    ) -> AclsReply:
        """Decides on a change of access rules; returns once it is durable and in force.

        The change continues even if the caller is cancelled. Raises the refusal, and the errors of
        `CommitLog.append_internal`. In a cluster, it may be in force on other nodes a little later.
        """
        if self._shared_rules is not None:

            async def audit(reply: AclsReply) -> None:
                self._append_event(event_of(reply))
                await until_durable(self._log, self._audit_ticket)

            changing = asyncio.ensure_future(self._shared_rules.change(request, audit))
            return await asyncio.shield(changing)
        damage = self._log.damage(CONFIG_PARTITION)
        if damage is not None:
            raise quarantined_own_log(CONFIG_PARTITION, damage)
        decision = self._shard.decide_acls(request, self.clock.now_ms())
        if decision.batch is not None and decision.reply is not None:
            self._append_event(event_of(decision.reply))
            self._config_ticket = self._log.append_internal(
                CONFIG_PARTITION, decision.batch, replay=self._shard.replay
            )
            change = self._apply_acls_in_turn(
                self._applying_acls, self._config_ticket, self._shard.rules.acls
            )
            self._applying_acls = asyncio.ensure_future(change)
        # It waits until the change, and all before it, are durable.
        if self._applying_acls is not None:
            await asyncio.shield(self._applying_acls)
        if decision.reply is None:
            assert decision.refusal is not None, "a decision is a reply or a refusal"
            raise decision.refusal
        return decision.reply

    async def recorded(self, event: AuditEvent) -> RecordedEvent:
        """The durable record of an event: a new one, or that of an earlier try of the request.

        Raises the errors of `CommitLog.append_internal`.
        """
        known = self.find(event.method, event.request_id) or self._append_event(event)
        await until_durable(self._log, self._audit_ticket)
        return known

    def note_events(self, events: Sequence[AuditEvent]) -> None:
        """Appends events that no request caused; the caller writes their changes right after them.

        Raises the errors of `CommitLog.append_internal`.
        """
        if not events:
            return
        assert not any(event.request_id for event in events), "a retry would ask for it"
        self._audit_ticket = self._log.append_internal(
            AUDIT_PARTITION, self._audit.batch_of(events), replay=self._audit.pass_over
        )

    async def audited(self) -> int:
        """The end of the audit log (exclusive), once all records below it are durable."""
        end = self._audit.offset_next
        await until_durable(self._log, self._audit_ticket)
        return end

    async def change_group(
        self, request: Request, event_of: Callable[[Reply], AuditEvent], room: Room
    ) -> tuple[int, Reply | CoordinatorError]:
        """Calls `LargeChanges.submit`, and writes the audit event first if anything changes.

        Raises the errors of `LargeChanges.submit`. The audit event may have been written even then.
        """

        def record(decision: Decision) -> None:
            assert decision.reply is not None, "what is written was not refused"
            self._append_event(event_of(decision.reply))

        return await self._large_changes.submit(request, before_write=record, room=room)

    def find(self, method: str, request_id: str) -> RecordedEvent | None:
        """The event recorded by an earlier try of a request; it may not be durable yet."""
        return self._audit.find(method, request_id, self.clock.now_ms())

    def _append_event(self, event: AuditEvent) -> RecordedEvent:
        offset = self._audit.offset_next
        self._audit_ticket = self._log.append_internal(
            AUDIT_PARTITION, self._audit.batch(event), replay=self._audit.replay
        )
        _log.info(
            "administrative change",
            method=event.method,
            topic=event.topic,
            what=event.what,
            reason=event.reason,
            peer=event.peer,
            principal=event.principal,
        )
        return RecordedEvent(offset, event)

    async def _until_applied(self) -> None:
        await until_durable(self._log, self._config_ticket)
        if self._applying is not None:
            await asyncio.shield(self._applying)

    async def _apply_in_turn(
        self, before: asyncio.Task[None] | None, ticket: int, configs: TopicConfigs
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        await until_durable(self._log, ticket)
        try:
            await asyncio.to_thread(self._apply, configs, self.settings_doubt)
        except Exception as error:
            raise ApplyFailed("the settings are stored, but could not be put in force") from error

    async def _apply_acls_in_turn(
        self, before: asyncio.Task[None] | None, ticket: int, acls: frozenset[Acl]
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        await until_durable(self._log, ticket)
        self._put_acls_in_force(acls)

    def _put_acls_in_force(self, acls: frozenset[Acl]) -> None:
        self._applied_acls = acls
        self._note_acls_doubt(self.acls_doubt)
        self._apply_acls(acls)

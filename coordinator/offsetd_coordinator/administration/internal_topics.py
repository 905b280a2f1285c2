"""The internal topics other than `__consumer_offsets`: loading and applying their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import attrs
import structlog
from offsetd_storage.log.store_config import TopicSpec
from offsetd_storage.maintenance.upkeep import UpkeepConfig

from offsetd_coordinator.administration.administration import Administration
from offsetd_coordinator.administration.audit import AuditLog
from offsetd_coordinator.configuration.config_state import ConfigState
from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig, ExpiryConfig
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    AUDIT_TOPIC,
    CONFIG_PARTITION,
    CONFIG_TOPIC,
)
from offsetd_coordinator.configuration.lag_config import LagConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.topic_configs import TopicConfigs
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.maintenance.upkeep import Upkeep
    from offsetd_storage.recovery.quarantine import Damage
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.administration.administration import SharedRules
    from offsetd_coordinator.large_groups.large_changes import LargeChanges
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.security.acl import Acl

_log = structlog.get_logger(__name__)

REMEDY: Final = (
    "mend or set what is named (offsetd admin config), or bring the log's folder back from a copy,"
    " or start with --accept-default-settings, or give up all that was set"
    " (offsetd log recreate --topic __offsetd_config)"
)

_CHUNK_BYTES: Final = 512 * 1024


def internal_topic_specs(configs: TopicConfigs) -> tuple[TopicSpec, ...]:
    """The specifications of these topics for the store: each has one partition."""
    return tuple(
        TopicSpec(
            topic=topic,
            partitions=1,
            log=configs.log_config(topic),
            # Without the settings, offsets that the operator wanted to keep would expire.
            is_removable=topic != CONFIG_TOPIC,
        )
        for topic in (AUDIT_TOPIC, CONFIG_TOPIC)
    )


@attrs.frozen(kw_only=True)
class InternalTopics:
    """The state of these topics. `damage` is set if the settings' log is quarantined."""

    shard: ConfigState
    audit: AuditLog
    damage: Damage | None = None
    accepts_defaults: bool = False  # The operator allows defaults for lost settings.

    @classmethod
    def load(
        cls,
        store: LogStore,
        started_with: TopicConfigs,
        *,
        request_id_window_ms: int,
        now_ms: int,
        accepts_defaults: bool = False,
    ) -> Self:
        """Replays the settings and applies them to the store's logs, then replays the audit log.

        A damaged log counts as empty, and changes are refused. Then `doubt` prevents background
        tasks from using the defaults, unless the operator `accepts_defaults`. Raises CorruptBatch
        or OSError if files have changed since recovery.
        """
        shard = ConfigState(started_with, request_id_window_ms=request_id_window_ms)
        audit = AuditLog(request_id_window_ms=request_id_window_ms)
        log = store.logs.get(CONFIG_PARTITION)
        if log is not None:
            for buffer, end in log.read_chunks(_CHUNK_BYTES):
                shard.replay(buffer[:end].tobytes())
            shard.end_load(offset_next=log.offset_next, leader_epoch=log.leader_epoch)
        log = store.logs.get(AUDIT_PARTITION)
        if log is not None:
            # Older events are not read: no retry can refer to them.
            since = log.offset_for_timestamp(now_ms - request_id_window_ms)
            if since is not None:
                for buffer, end in log.read_chunks(_CHUNK_BYTES, offset=since):
                    audit.replay(buffer[:end].tobytes())
            audit.end_load(offset_next=log.offset_next, leader_epoch=log.leader_epoch)
        _warn_of_problems(shard)
        apply_log_configs(store, shard.applied.configs)
        own = cls(
            shard=shard,
            audit=audit,
            damage=store.quarantined.get(CONFIG_PARTITION),
            accepts_defaults=accepts_defaults,
        )
        own.log_doubt()
        return own

    @property
    def doubt(self) -> str | None:
        """The reason why the settings in force may differ from those that were set, or None."""
        return None if self.accepts_defaults else self._what_is_lost()

    def _what_is_lost(self) -> str | None:
        return self.shard.doubt if self.damage is None else f"their log is damaged: {self.damage}"

    def log_doubt(self) -> None:
        """Logs at a start the reason why expiry, cleaning and retention are suspended."""
        lost = self._what_is_lost()
        if lost is None:
            return
        if self.accepts_defaults:
            _log.warning("not all settings can be read; defaults apply, as accepted", reason=lost)
        else:
            _log.error(
                "not all settings can be read: nothing expires, is cleaned or is deleted",
                reason=lost,
                remedy=REMEDY,
            )

    def administration(
        self,
        runtime: Runtime,
        large_changes: LargeChanges,
        upkeep: Upkeep,
        *,
        clock: Clock,
        is_draining: Callable[[], bool],
        apply_acls: Callable[[frozenset[Acl]], None] = lambda _acls: None,
        note_acls_doubt: Callable[[str | None], None] = lambda _doubt: None,
        shared_rules: SharedRules | None = None,
    ) -> Administration:
        """The administration of an open store and its background tasks.

        A preview of a cleaning stops once `is_draining` returns True. `apply_acls` puts access
        rules in force: those that were loaded at once, and others after each change. Before each,
        `note_acls_doubt` gets the reason why some may be missing.
        """
        store = runtime.local_store()

        def configure_runtime(configs: TopicConfigs, doubt: str | None) -> None:
            runtime.configure(
                configs.server_config(CommitGuardConfig),
                configs.server_config(ExpiryConfig),
                configs.server_config(LagConfig),
                are_doubtful=doubt is not None,
            )

        def apply(configs: TopicConfigs, doubt: str | None) -> None:
            for topic_partition in apply_log_configs(store, configs):
                # Cleaning by the old settings ends first, so that none runs after the answer.
                upkeep.cleaner.abort(topic_partition)
            upkeep.configure(upkeep_config(configs, doubt))
            configure_runtime(configs, doubt)

        def is_ending() -> bool:
            return runtime.failed is not None or is_draining()

        def preview(topic_partition: TopicPartition, rolls_active: bool) -> CleanReport | None:
            return upkeep.cleaner.preview(
                topic_partition, rolls_active=rolls_active, should_stop=is_ending
            )

        configure_runtime(self.shard.applied.configs, self.doubt)
        return Administration(
            runtime,
            large_changes,
            self.shard,
            self.audit,
            clock=clock,
            apply=apply,
            preview=preview,
            doubt=lambda: self.doubt,
            apply_acls=apply_acls,
            note_acls_doubt=note_acls_doubt,
            shared_rules=shared_rules,
        )


def _warn_of_problems(shard: ConfigState) -> None:
    for key, problem in shard.applied.problems.items():
        _log.warning("a setting is stored, but not used", setting=str(key), problem=problem)
    if shard.unknown_records or shard.undecodable_records:
        _log.warning(
            "records of settings cannot be read",
            unknown=shard.unknown_records,
            undecodable=shard.undecodable_records,
        )
    if shard.rules.unreadable_records:
        _log.error(
            "some access rules cannot be read, and are not in force",
            count=shard.rules.unreadable_records,
        )


def apply_log_configs(store: LogStore, configs: TopicConfigs) -> list[TopicPartition]:
    """Applies these settings to the store's logs; returns the logs whose settings changed."""
    by_topic = {each.topic: configs.log_config(each.topic) for each in store.logs}
    changed = [each for each, log in store.logs.items() if log.config != by_topic[each.topic]]
    for topic_partition in changed:
        store.logs[topic_partition].config = by_topic[topic_partition.topic]
    return changed


def upkeep_config(configs: TopicConfigs, doubt: str | None = None) -> UpkeepConfig:
    """The settings of background tasks; a `doubt` about them stops cleaning and retention."""
    return UpkeepConfig(
        held=None if doubt is None else f"not all settings can be read: {doubt}",
        cleaner=configs.cleaner,
        retention=configs.retention,
        background=configs.background,
        disk=configs.disk,
    )

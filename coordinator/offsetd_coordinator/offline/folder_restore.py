"""A backup becomes a data folder that a server can open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.backups.backup_errors import BackupBlocked, BackupDamaged, BackupRefused
from offsetd_storage.backups.log_restoring import (
    LogRestoring,
    check_chunks_there,
    offset_after_restore,
)
from offsetd_storage.backups.point_in_time import backup_for, cuts_at
from offsetd_storage.backups.restored_folder import begin_restore, end_restore
from offsetd_storage.backups.targets import check_apart
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.folder.unfinished_restore import RESTORE_MARK
from offsetd_storage.log_store import LogStore
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.administration.repair_journal import append_event
from offsetd_coordinator.configuration.dynamic_settings import ExpiryConfig
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.expiry.uptime_marker import UptimeMarker, write_marker
from offsetd_coordinator.offline.restore_fencing import EndedGroups, end_leases_and_members
from offsetd_coordinator.rfc3339 import rfc3339
from offsetd_coordinator.server_folder import store_config

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path
    from random import Random

    from offsetd_storage.backups.manifest import LogEntry, Manifest
    from offsetd_storage.backups.point_in_time import Cut
    from offsetd_storage.backups.repository import Repository
    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.folder_lock import FolderLock

METHOD: Final = "RestoreBackup"
_RECOVERY_THREADS: Final = 2


@attrs.frozen(kw_only=True)
class ChosenBackup:
    """The backup to restore, and where its logs end. `time_ms` is None for all of it."""

    backup_id: str
    manifest: Manifest
    time_ms: int | None = None
    cuts: Mapping[TopicPartition, Cut] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class RestoredLog:
    """A restored log: up to `end_offset` it is as it was, and it goes on at `next_offset`."""

    topic_partition: TopicPartition
    end_offset: int
    next_offset: int
    size_bytes: int


def chosen_backup(
    repository: Repository,
    backup_id: str | None,
    *,
    time_ms: int | None,
    now_ms: int,
    group_ids: Collection[str] = (),
) -> ChosenBackup:
    """The backup with this id, or the newest; for a time, the earliest that reaches it.

    With groups, only their logs are looked at, and are in the manifest that is returned. Raises
    BackupRefused, BackupDamaged, NewerFormat, TargetFailed.
    """
    if time_ms is None:
        chosen = backup_id or repository.newest_id()
    else:
        chosen = backup_id or backup_for(repository.backups(), time_ms, of=rfc3339)
    try:
        manifest = repository.manifest(chosen)
    except BackupDamaged as error:
        usable = [each.backup_id for each in repository.backups() if each.manifest is not None]
        hint = f"take another one: --backup {usable[-1]}" if usable else "no other one is whole"
        raise BackupDamaged(f"{error}; {hint}") from error
    if manifest.missing_partitions:  # They would give out their first offsets again.
        raise BackupDamaged(f"backup {chosen} has not all log partitions")
    if group_ids:
        manifest = logs_of_groups(manifest, group_ids)
    for log in manifest.logs:  # Also checks the clock.
        offset_after_restore(log.end_offset, moment_ms=manifest.moment_ms, now_ms=now_ms)
    check_chunks_there(repository, manifest)
    if time_ms is None:
        return ChosenBackup(backup_id=chosen, manifest=manifest)
    if time_ms > manifest.moment_ms:
        raise BackupRefused(
            f"backup {chosen} reaches to {rfc3339(manifest.moment_ms)}, not to {rfc3339(time_ms)}"
        )
    cuts = cuts_at(repository, manifest, time_ms, of=rfc3339)
    return ChosenBackup(backup_id=chosen, manifest=manifest, time_ms=time_ms, cuts=cuts)


def logs_of_groups(manifest: Manifest, group_ids: Collection[str]) -> Manifest:
    """The manifest with only the logs in which these groups are."""
    partitions = {partition_of(each, manifest.offsets_partitions) for each in group_ids}
    wanted = {TopicPartition(OFFSETS_TOPIC, each) for each in partitions}
    return attrs.evolve(
        manifest, logs=tuple(each for each in manifest.logs if each.topic_partition in wanted)
    )


def restore_folder(
    files: Files,
    folder: Path,
    repository: Repository,
    chosen: ChosenBackup,
    *,
    clock: Clock,
    random: Random,
    on_bytes: Callable[[int], object] = lambda _: None,
) -> tuple[list[RestoredLog], EndedGroups]:
    """Fills an empty folder. Until it returns, no server opens the folder.

    If it is broken off, the next restore into the folder begins anew. Raises BackupRefused for a
    folder within the target; FolderMismatch for one that is not empty, FolderLocked for one that is
    in use; BackupBlocked if there is no room; BackupDamaged, StorageError, OSError.
    """
    check_apart(repository.target, folder)
    if not files.exists(folder / RESTORE_MARK):  # A folder that is refused stays as it is.
        _check_room(files, folder, chosen.manifest)
    lock = begin_restore(files, folder)
    try:
        # What a broken-off restore left takes no more room now.
        _check_room(lock.files, folder, chosen.manifest)
        return _restore_locked(lock, folder, repository, chosen, clock, random, on_bytes)
    finally:
        lock.release()


def _restore_locked(
    lock: FolderLock,
    folder: Path,
    repository: Repository,
    chosen: ChosenBackup,
    clock: Clock,
    random: Random,
    on_bytes: Callable[[int], object],
) -> tuple[list[RestoredLog], EndedGroups]:
    files, now_ms = lock.files, clock.now_ms()
    LogRestoring(
        repository=repository,
        manifest=chosen.manifest,
        files=files,
        folder=folder,
        now_ms=now_ms,
        cuts=chosen.cuts,
        on_bytes=on_bytes,
    ).restore(random)
    store = LogStore.open(
        files,
        folder,
        store_config(Settings(), _RECOVERY_THREADS),
        clock=clock,
        random=random,
        restore_lock=lock,
    )
    try:
        _refuse_damaged(store)
        ended = end_leases_and_members(store, moment_ms=_state_ms(chosen), now_ms=now_ms)
        _append_audit_event(store, chosen, ended, now_ms)
        logs = [_restored(chosen, store, each) for each in chosen.manifest.logs]
        # Nothing expires at first: the groups may have been served elsewhere meanwhile.
        grace_until_ms = now_ms + ExpiryConfig().grace_ms
        write_marker(files, folder, UptimeMarker(up_ms=now_ms, grace_until_ms=grace_until_ms))
    except BaseException:
        store.abandon()
        raise
    store.close()
    end_restore(files, folder)
    return logs, ended


def _refuse_damaged(store: LogStore) -> None:
    for damage in store.quarantined.values():
        raise BackupDamaged(f"the backup holds a damaged log: {damage}")


def _state_ms(chosen: ChosenBackup) -> int:
    return chosen.manifest.moment_ms if chosen.time_ms is None else chosen.time_ms


def _check_room(files: Files, folder: Path, manifest: Manifest) -> None:
    """Raises BackupBlocked if the disk cannot hold the logs."""
    free_bytes = files.free_bytes(folder if files.exists(folder) else folder.parent)
    if free_bytes < manifest.size_bytes:
        raise BackupBlocked(
            f"the backup has {manifest.size_bytes} bytes, and {folder} has room for {free_bytes}"
        )


def _append_audit_event(
    store: LogStore, chosen: ChosenBackup, ended: EndedGroups, now_ms: int
) -> None:
    what = {
        "backup": chosen.backup_id,
        "moment": rfc3339(chosen.manifest.moment_ms),
        "to_time": None if chosen.time_ms is None else rfc3339(chosen.time_ms),
        "released_leases": ended.leases,
        "groups_without_members": ended.groups,
    }
    append_event(store, AuditEvent(time_ms=now_ms, method=METHOD, topic=None, what=what))


def _restored(chosen: ChosenBackup, store: LogStore, log: LogEntry) -> RestoredLog:
    each = log.topic_partition
    cut = chosen.cuts.get(each)
    opened = store.log(each)
    return RestoredLog(
        topic_partition=each,
        end_offset=log.end_offset if cut is None else cut.offset,
        next_offset=opened.offset_next,
        size_bytes=opened.size_bytes,
    )

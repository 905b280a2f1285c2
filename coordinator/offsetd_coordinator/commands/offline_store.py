"""Settings, locking and recovery, shared by the `offsetd log` commands that change a folder."""

import os
import random
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsetd_storage.broker_logs import BrokerLogs
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.configuration.topic_configs import TopicConfigs
from offsetd_storage.disk.disk_space import opened_with_reserve
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.folder.folder_format import read_properties
from offsetd_storage.log_store import LogStore
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.recovery.recovery_request import RepairWitness
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView

from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.administration.repair_journal import complete_repairs, partition_of
from offsetd_coordinator.commands.terminal import WRONG_USE, ProgressReport, Terminal
from offsetd_coordinator.configuration.internal_topic_configs import CONFIG_PARTITION
from offsetd_coordinator.configuration.settings_sources import SettingsError
from offsetd_coordinator.offline.folder_settings import configs_of_folder, configs_of_store
from offsetd_coordinator.offline.offline_cleaning_run import (
    CleaningSettings,
    read_cleaning_settings,
)
from offsetd_coordinator.rfc3339 import rfc3339
from offsetd_coordinator.server_folder import StartFailed, raise_descriptor_limit

if TYPE_CHECKING:
    from offsetd_storage.broker_logs import OpenLogs


def offline_settings(
    terminal: Terminal, topic: str, assignments: Sequence[str]
) -> CleaningSettings:
    """The settings of `--set` and the environment, for one topic."""
    try:
        return read_cleaning_settings(assignments, os.environ, topic=topic)
    except (SettingsError, InvalidSetting) as error:
        terminal.fail(str(error), code=WRONG_USE)


def configs_looked_at(
    terminal: Terminal, view: FolderView, settings: CleaningSettings
) -> TopicConfigs:
    """The settings, changed by those stored in the folder. The folder is not changed."""
    try:
        return settings.with_changes(configs_of_folder(OsFiles(), view, settings.configs))
    except DamageFound as found:
        terminal.fail(f"the settings in the folder cannot be read: {found.of(CONFIG_PARTITION)}")
    except InvalidSetting as error:
        terminal.fail(str(error), code=WRONG_USE)


@contextmanager
def configured_logs(
    terminal: Terminal,
    view: FolderView,
    settings: CleaningSettings,
    partitions: Sequence[TopicPartition],
    report: ProgressReport,
) -> "Iterator[OpenLogs]":
    """Opens the logs of `partitions`, with the settings that a server would use.

    Logs of a broker's folder, and of topics that are not the server's, are opened in place: no file
    of offsetd is left in their folder.
    """
    is_ours = read_properties(OsFiles(), view.folder) is not None
    if not is_ours or settings.topic not in settings.topics_of_store:
        config = configs_looked_at(terminal, view, settings).log_config(settings.topic)
        with _opened_broker_logs(view, partitions, config, report) as logs:
            yield logs
        return
    with opened_store(terminal, view, settings, report) as store:
        try:
            configs = settings.with_changes(configs_of_store(store, settings.configs))
        except InvalidSetting as error:
            terminal.fail(str(error), code=WRONG_USE)
        for each in partitions:
            if each in store.logs:
                store.logs[each].config = configs.log_config(settings.topic)
        yield store


@contextmanager
def _opened_broker_logs(
    view: FolderView,
    partitions: Sequence[TopicPartition],
    config: LogConfig,
    report: ProgressReport,
) -> Iterator[BrokerLogs]:
    """Locks the folder, recovers and yields these logs, and closes them unless an error occurs."""
    logs = BrokerLogs.open(
        OsFiles(),
        view.folder,
        partitions,
        config,
        clock=SystemClock(),
        random=random.SystemRandom(),
        on_progress=lambda done: report(done, len(partitions), "checking"),
    )
    try:
        yield logs
    except BaseException:
        logs.abandon()
        raise
    logs.close()


@contextmanager
def opened_store(
    terminal: Terminal,
    view: FolderView,
    settings: CleaningSettings,
    report: ProgressReport,
    *,
    recreated: Collection[TopicPartition] = (),
    repaired: Collection[TopicPartition] = (),
    witness: RepairWitness | None = None,
) -> Iterator[LogStore]:
    """Locks and recovers the folder, and closes it. After an error, the next start recovers it.

    Repairs whose events the audit log lacks get them here.
    """
    try:
        raise_descriptor_limit(view.offsets_partitions, 0)
    except StartFailed as error:
        terminal.fail(str(error))
    files = OsFiles()
    store = opened_with_reserve(
        files,
        view.folder,
        lambda: LogStore.open(
            files,
            view.folder,
            settings.store,
            clock=SystemClock(),
            random=random.SystemRandom(),
            on_progress=lambda at: report(at.partitions_done, at.partitions, "checking"),
            recreated=recreated,
            repaired=repaired,
            witness=witness,
        ),
    )
    for warning in store.report.warnings:
        terminal.note(f"found while opening: {warning}")
    try:
        completed = complete_repairs(store, view.folder)
        if completed.problem:
            terminal.note(completed.problem)
        for event in completed.events:
            terminal.note(f"the audit log has the entry of the repair of {told(event)}")
        yield store
    except BaseException:
        store.abandon()
        raise
    store.close()


def told(event: AuditEvent) -> str:
    """A repair in a sentence: the partition, who began it, and when."""
    return f"{partition_of(event)}, begun at {rfc3339(event.time_ms)} by {event.peer}"

"""What the commands of `offsetd log` that change a folder do alike: settings, locking, recovery."""

import os
import random
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from offsetd_storage.clock import SystemClock
from offsetd_storage.disk_space import opened_with_reserve
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.files import OsFiles
from offsetd_storage.folder_view import FolderView
from offsetd_storage.log_config import LogConfig
from offsetd_storage.log_store import LogStore
from offsetd_storage.quarantine import DamageFound
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.commands.terminal import WRONG_USE, ProgressReport, Terminal
from offsetd_coordinator.folder_settings import configs_of_folder, configs_of_store
from offsetd_coordinator.log_cleaning import CleaningSettings, read_cleaning_settings
from offsetd_coordinator.server import StartFailed, raise_descriptor_limit
from offsetd_coordinator.settings_sources import SettingsError


def offline_settings(
    terminal: Terminal, topic: str, assignments: Sequence[str]
) -> CleaningSettings:
    """What `--set` and the environment say, for one topic."""
    try:
        return read_cleaning_settings(assignments, os.environ, topic=topic)
    except (SettingsError, InvalidSetting) as error:
        terminal.fail(str(error), code=WRONG_USE)


def config_looked_at(terminal: Terminal, view: FolderView, settings: CleaningSettings) -> LogConfig:
    """How the topic's logs behave, by the folder, too; nothing is changed."""
    try:
        configs = configs_of_folder(OsFiles(), view, settings.configs)
        return settings.log_config(configs)
    except DamageFound as found:
        terminal.fail(f"the settings in the folder cannot be read: {found}")
    except InvalidSetting as error:
        terminal.fail(str(error), code=WRONG_USE)


@contextmanager
def configured_store(
    terminal: Terminal,
    view: FolderView,
    settings: CleaningSettings,
    partitions: Sequence[TopicPartition],
    report: ProgressReport,
) -> Iterator[LogStore]:
    """An open store, in which the logs of `partitions` behave as they would in a server."""
    with opened_store(terminal, view, settings, report) as store:
        try:
            config = settings.log_config(configs_of_store(store, settings.configs))
        except InvalidSetting as error:
            terminal.fail(str(error), code=WRONG_USE)
        for each in partitions:
            if each in store.logs:
                store.logs[each].config = config
        yield store


@contextmanager
def opened_store(
    terminal: Terminal,
    view: FolderView,
    settings: CleaningSettings,
    report: ProgressReport,
    *,
    begin_anew: Collection[TopicPartition] = (),
) -> Iterator[LogStore]:
    """Locks and recovers the folder; closes it, or after a failure leaves it as a crash would."""
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
            begin_anew=begin_anew,
        ),
    )
    for warning in store.report.warnings:
        terminal.note(f"found while opening: {warning}")
    try:
        yield store
    except BaseException:
        store.abandon()
        raise
    store.close()

"""Settings that were changed while a server ran, read from its data folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.cleaner.offline_cleaning import viewed_log
from offsetd_storage.errors import StorageError

from offsetd_coordinator.configuration.config_state import ConfigState
from offsetd_coordinator.configuration.internal_topic_configs import CONFIG_PARTITION

if TYPE_CHECKING:
    from offsetd_storage.configuration.topic_configs import TopicConfigs
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.readable_log import ReadableLog
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.views.folder_view import FolderView

_CHUNK_BYTES: Final = 512 * 1024


class SettingsUnreadable(StorageError):
    """The folder has dynamic settings, but they cannot be read or cannot be used."""


def configs_of_store(store: LogStore, static: TopicConfigs) -> TopicConfigs:
    """`static`, changed by the dynamic settings of an open store.

    Raises PartitionQuarantined if the log of dynamic settings is damaged, and SettingsUnreadable.
    """
    if CONFIG_PARTITION not in store.logs and CONFIG_PARTITION not in store.quarantined:
        return static
    return _replayed(store.log(CONFIG_PARTITION), static)


def configs_of_folder(files: Files, view: FolderView, static: TopicConfigs) -> TopicConfigs:
    """`static`, changed by the dynamic settings of a folder that is read without a lock.

    Raises DamageFound, SettingsUnreadable.
    """
    for each in view.logs:
        if each.topic_partition == CONFIG_PARTITION:
            config = static.log_config(CONFIG_PARTITION.topic)
            with viewed_log(files, each, config) as log:
                return _replayed(log, static)
    if CONFIG_PARTITION in view.missing:
        raise SettingsUnreadable(
            f"the settings in the folder cannot be read: {CONFIG_PARTITION.folder_name} is missing"
        )
    return static


def _replayed(log: ReadableLog, static: TopicConfigs) -> TopicConfigs:
    shard = ConfigState(static, request_id_window_ms=0)
    for buffer, end in log.read_chunks(_CHUNK_BYTES):
        shard.replay(buffer[:end].tobytes())
    if shard.doubt is not None:
        raise SettingsUnreadable(
            f"the settings in the folder cannot be read: {shard.doubt}; start a server on the"
            " folder and set other values, or give up all of them with `offsetd log recreate`"
        )
    return shard.applied.configs

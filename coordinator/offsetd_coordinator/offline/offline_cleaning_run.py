"""`log clean` without its printing: reads the settings, then cleans or previews each partition."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.cleaner.cleaner_thread import new_map
from offsetd_storage.cleaner.cleaning_round import CleanerTools
from offsetd_storage.cleaner.offline_cleaning import clean_partition, preview_partition, roll_active
from offsetd_storage.cleaner.throttle import Throttle
from offsetd_storage.configuration.settings import canonical_name
from offsetd_storage.configuration.topic_configs import TOPIC_SETTINGS
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.log.store_config import OFFSETS_TOPIC
from offsetd_storage.views.live_folder import seen_steadily

from offsetd_coordinator.configuration.settings_sources import SettingsError, load_settings
from offsetd_coordinator.offline.partition_outcomes import PartitionOutcome, outcome_of
from offsetd_coordinator.server_folder import store_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from random import Random

    from offsetd_storage.broker_logs import OpenLogs
    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.configuration.server_config import CleanerConfig
    from offsetd_storage.configuration.topic_configs import TopicConfigs
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log_store import LogStoreConfig
    from offsetd_storage.topic_partition import TopicPartition
    from offsetd_storage.views.folder_view import FolderView, LogView

_CLEANUP_POLICY: Final = "cleanup.policy"


@attrs.frozen(kw_only=True)
class CleaningSettings:
    """The settings for opening a folder and cleaning its logs."""

    store: LogStoreConfig
    cleaner: CleanerConfig
    configs: TopicConfigs
    topic: str
    changes: Mapping[str, str]  # The topic's, from the command line; they override others.

    @property
    def topics_of_store(self) -> frozenset[str]:
        """The topics whose logs the server writes. Its journal knows no other topics."""
        return frozenset((OFFSETS_TOPIC, *(spec.topic for spec in self.store.other_topics)))

    def with_changes(self, configs: TopicConfigs) -> TopicConfigs:
        """`configs`, the settings in the folder, with the changes for the topic.

        Raises InvalidSetting if values do not fit each other or the topic, or if the topic has no
        cleanup policy.
        """
        if self.topic not in configs.topics and _CLEANUP_POLICY not in self.changes:
            raise InvalidSetting(
                _CLEANUP_POLICY, f"topic {self.topic} has no cleanup policy here: --set one"
            )
        return configs.with_changes(self.topic, self.changes)


def read_cleaning_settings(
    assignments: Sequence[str],
    environment: Mapping[str, str],
    *,
    topic: str = OFFSETS_TOPIC,
) -> CleaningSettings:
    """The settings from `assignments` (`NAME=VALUE`) and `environment`; no file is read.

    A setting of topics among the assignments applies to `topic`. Raises SettingsError,
    InvalidSetting.
    """
    of_server, changes = [], {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if name == "data.dir":
            raise SettingsError("data.dir (--set): name the folder with --data-dir")
        is_of_topic = equals and canonical_name(name) in TOPIC_SETTINGS
        if is_of_topic:
            changes[name] = text
        if topic == OFFSETS_TOPIC or not is_of_topic:
            of_server.append(assignment)
    settings = load_settings(environment=environment, assignments=of_server)
    settings.configs.with_changes(topic, changes)
    threads = settings.num_recovery_threads_per_data_dir or os.cpu_count() or 1
    return CleaningSettings(
        store=store_config(settings, threads),
        cleaner=settings.cleaner,
        configs=settings.configs,
        topic=topic,
        changes=changes,
    )


def cleaner_tools(
    config: CleanerConfig,
    *,
    files: Files,
    clock: Clock,
    random: Random,
    sleep: Callable[[float], None] = time.sleep,
) -> CleanerTools:
    """The tools of a single cleaner thread, which gets the whole buffer. Raises InvalidSetting."""
    try:
        offset_map = new_map(attrs.evolve(config, threads=1), hash_key=random.randbytes(16))
    except MemoryError as error:
        raise InvalidSetting("log.cleaner.dedupe.buffer.size", str(error)) from error
    throttle = Throttle(config.io_bytes_per_second_max, clock=clock, sleep=sleep)
    return CleanerTools(files=files, offset_map=offset_map, clock=clock, throttle=throttle)


def cleaned_partitions(
    store: OpenLogs,
    folder: Path,
    partitions: Sequence[TopicPartition],
    tools: CleanerTools,
    *,
    rolls_active: bool,
) -> Iterator[PartitionOutcome[CleanReport]]:
    """Cleans one log after the other. The outcome reports a log that is damaged or uncleanable.

    Raises StorageFull if the disk has no room to roll a segment, and StorageFailed.
    """
    if rolls_active:
        roll_active(store, [each for each in partitions if each in store.logs])
    checkpoint = CleanerCheckpoint(tools.files, folder)
    for topic_partition in partitions:
        yield outcome_of(
            topic_partition, partial(clean_partition, store, topic_partition, tools, checkpoint)
        )


def previewed_partitions(
    view: FolderView,
    logs: Sequence[LogView],
    tools: CleanerTools,
    config: LogConfig,
    *,
    log_starts: Mapping[TopicPartition, int],
    rolls_active: bool,
) -> Iterator[PartitionOutcome[CleanReport]]:
    """Yields what `cleaned_partitions` would do. The folder is not changed.

    If a running server swaps segments of a log during the read, that log is read again.
    """
    checkpoint = CleanerCheckpoint(tools.files, view.folder)
    for log in logs:
        topic_partition = log.topic_partition
        look = partial(
            preview_partition,
            tools=tools,
            config=config,
            first_dirty=checkpoint.first_dirty(topic_partition),
            log_start_offset=log_starts.get(topic_partition, 0),
            rolls_active=rolls_active,
        )
        yield outcome_of(topic_partition, partial(seen_steadily, tools.files, view, log, look))

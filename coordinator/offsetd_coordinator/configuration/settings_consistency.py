"""Checks of settings against each other: values may be valid, but not fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.journal.journal import SECTOR_BYTES
from offsetd_storage.journal.journal_format import (
    COUNT,
    FRAME,
    FRAME_BYTES_MAX,
    RecoveryPoint,
    batch_entry_bytes,
    encode_points,
    frame_bytes,
    header_bytes,
)
from offsetd_storage.log.store_config import OFFSETS_TOPIC, LogStoreConfig
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)

if TYPE_CHECKING:
    from offsetd_coordinator.configuration.server_settings import Settings

_STORE_DEFAULTS: Final = LogStoreConfig()
# Bounds of max.message.bytes. Less would refuse plain commits; more does not fit a journal frame.
_MESSAGE_BYTES_LEAST: Final = 1024
_MESSAGE_BYTES_MOST: Final = FRAME_BYTES_MAX - 4096


def misfit(settings: Settings) -> str | None:
    """One line about settings that do not fit each other; None if all do.

    The number of partitions is known only once the folder is open. If no setting gives it, the
    journal is checked for one partition. Later the store refuses a journal that is too small for
    all.
    """
    message_bytes_max = settings.log.message_bytes_max
    if not _MESSAGE_BYTES_LEAST <= message_bytes_max <= _MESSAGE_BYTES_MOST:
        return (
            f"max.message.bytes = {message_bytes_max} of {OFFSETS_TOPIC}: must be"
            f" {_MESSAGE_BYTES_LEAST} to {_MESSAGE_BYTES_MOST} bytes"
        )
    if (problem := _backup_misfit(settings)) is not None:
        return problem
    needed = journal_bytes_needed(settings)
    if settings.journal_file_bytes >= needed:
        return None
    partitions = settings.offsets_topic_num_partitions
    told = "" if partitions is None else f" and offsets.topic.num.partitions = {partitions}"
    return (
        f"journal.file.bytes = {settings.journal_file_bytes} is too small for"
        f" max.message.bytes = {message_bytes_max}{told}: must be {needed} or more bytes"
    )


def _backup_misfit(settings: Settings) -> str | None:
    """The certificate of the client that makes a cluster's backups."""
    if not (settings.backup_target and settings.is_clustered):
        return None
    has_certificate = bool(settings.backup_client_certificate_file)
    if has_certificate != bool(settings.backup_client_key_file):
        return "backup.client.certificate.file and backup.client.key.file go together"
    if settings.ssl_client_auth == "required" and not has_certificate:
        return (
            "backup.target in a cluster with ssl.client.auth = required needs"
            " backup.client.certificate.file: nodes read each other's parts as clients"
        )
    return None


def journal_bytes_needed(settings: Settings) -> int:
    """The smallest size of a journal file that can hold the largest batch."""
    partitions = settings.offsets_topic_num_partitions or 1
    offsets = (TopicPartition(OFFSETS_TOPIC, partition) for partition in range(partitions))
    points = [RecoveryPoint.of_held(each) for each in (*offsets, CONFIG_PARTITION, AUDIT_PARTITION)]
    header = max(_STORE_DEFAULTS.journal_header_bytes, header_bytes(points))
    frames_start = -(-header // SECTOR_BYTES) * SECTOR_BYTES
    kept = 2 * frame_bytes(len(encode_points(points))) + frame_bytes(0)
    return frames_start + kept + _frame_bytes_of(settings.log.message_bytes_max)


def frame_bytes_max(settings: Settings) -> int:
    """The limit of the journal's frames: the default, or more if the largest batch needs it."""
    largest = _frame_bytes_of(settings.log.message_bytes_max)
    return min(max(_STORE_DEFAULTS.frame_bytes_max, largest), FRAME_BYTES_MAX)


def _frame_bytes_of(message_bytes: int) -> int:
    entry = batch_entry_bytes(TopicPartition(OFFSETS_TOPIC, 0), message_bytes)
    return FRAME.size + COUNT.size + entry

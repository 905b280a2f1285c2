"""Settings of the backups that the server makes itself."""

from __future__ import annotations

from typing import Final

import attrs
from offsetd_storage.configuration.settings import milliseconds, text, whole

from offsetd_coordinator.configuration.security_settings import SecuritySettings

BYTES_PER_SECOND_LEAST: Final = 65_536
"""Slower, a backup would hold its files for days."""


@attrs.frozen(kw_only=True)
class BackupSettings(SecuritySettings):
    """The values for backups."""

    backup_target: str = text(
        "",
        "backup.target",
        is_ours=True,
        reason="Where the server puts its own backups: a folder, or a URL (s3://BUCKET/PREFIX)."
        " Empty: it makes none.",
    )
    backup_interval_ms: int = milliseconds(
        3_600_000,
        "backup.interval.ms",
        least=1000,
        most=86_400_000 * 366,
        is_ours=True,
        reason="The time between two backups. At most history.ms, for a restore to any time.",
    )
    backup_keep: int = whole(
        0,
        "backup.keep",
        unit="backups",
        least=0,
        is_ours=True,
        reason="After each backup, all but the newest N are removed. 0: all are kept.",
    )
    backup_max_bytes_per_second: int = whole(
        8_388_608,
        "backup.max.bytes.per.second",
        unit="bytes",
        least=BYTES_PER_SECOND_LEAST,
        is_ours=True,
        reason="How fast a backup reads the logs, so that commits keep the disk to themselves.",
    )
    backup_client_ca_file: str = text(
        "",
        "backup.client.ca.file",
        is_ours=True,
        reason="In a cluster, a node reads the other nodes' parts as a client. PEM file of the"
        " authorities of their certificates. Empty: those that gRPC has.",
    )
    backup_client_certificate_file: str = text(
        "",
        "backup.client.certificate.file",
        is_ours=True,
        reason="PEM file of that client's certificate, for ssl.client.auth=required.",
    )
    backup_client_key_file: str = text(
        "",
        "backup.client.key.file",
        is_ours=True,
        reason="PEM file of the key of that certificate, without a password.",
    )
    backup_client_token_file: str = text(
        "",
        "backup.client.token.file",
        is_ours=True,
        reason="File of that client's token. All four files are read at each backup.",
    )

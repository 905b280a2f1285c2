"""Settings of a node whose log is on a Kafka cluster, and of the node's Kafka clients.

`cluster.kafka.NAME` gives the setting NAME to each of the node's Kafka clients, as librdkafka
calls it: `cluster.kafka.security.protocol`. `cluster.kafka.NAME.file` names a file whose content is
the value, so that a password is in no command line. The values are never logged or described.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.configuration.setting_kinds import INT32_MAX
from offsetd_storage.configuration.settings import listed, milliseconds, text, whole
from offsetd_storage.errors import InvalidSetting

from offsetd_coordinator.configuration.backup_settings import BackupSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

KAFKA_PREFIX: Final = "cluster.kafka."
_FILE_SUFFIX: Final = ".file"


@attrs.frozen(kw_only=True)
class ClusterSettings(BackupSettings):
    """The values for a node of a cluster."""

    cluster_bootstrap_servers: str = text(
        "",
        "cluster.bootstrap.servers",
        is_ours=True,
        reason="Brokers of the Kafka cluster that keeps the log, HOST:PORT with commas between"
        " them. Empty: this server is alone, and its log is in data.dir only.",
    )
    cluster_id: str = text(
        "offsetd",
        "cluster.id",
        is_ours=True,
        reason="The name that all nodes of one cluster share. Their topics are __ID_offsets,"
        " __ID_config and __ID_audit, and their consumer group is __ID_nodes.",
    )
    cluster_replication_factor: int = whole(
        3,
        "cluster.replication.factor",
        unit="replicas",
        least=1,
        most=32_767,
        is_ours=True,
        reason="The replicas of the topics. A topic with fewer is refused at the start.",
    )
    cluster_min_insync_replicas: int = whole(
        2,
        "cluster.min.insync.replicas",
        unit="replicas",
        least=1,
        most=32_767,
        is_ours=True,
        reason="The replicas that must have a commit before it is acknowledged. A topic with a"
        " smaller min.insync.replicas is refused at the start.",
    )
    cluster_session_timeout_ms: int = milliseconds(
        6000,
        "cluster.session.timeout.ms",
        least=1000,
        most=INT32_MAX,
        is_ours=True,
        reason="A node that the brokers do not hear from for this time loses its partitions. The"
        " brokers' group.min.session.timeout.ms is a lower bound.",
    )
    cluster_read_lease_ms: int = milliseconds(
        1000,
        "cluster.read.lease.ms",
        least=50,
        most=60_000,
        is_ours=True,
        reason="How long a node answers reads from memory after its last transaction. A node that"
        " takes over from a dead one waits as long. It must be the same on all nodes.",
    )
    cluster_transaction_timeout_ms: int = milliseconds(
        60_000,
        "cluster.transaction.timeout.ms",
        least=1000,
        most=INT32_MAX,
        is_ours=True,
        reason="The brokers abort a transaction that has been open for this time, and its node"
        " stops. A node that takes over ends open transactions of the former owner at once.",
    )
    cluster_producers: int = whole(
        8,
        "cluster.producers",
        unit="producers",
        least=1,
        most=64,
        is_ours=True,
        reason="Producers that take turns with transactions. One alone waits after each"
        " transaction until the brokers have written its markers.",
    )
    cluster_standby_copies: int = whole(
        1,
        "cluster.standby.copies",
        unit="copies",
        least=0,
        most=1000,
        is_ours=True,
        reason="Nodes beside the owner that keep a copy of a partition in their data.dir, so that"
        " a takeover reads little from Kafka.",
    )
    cluster_group_protocol: str = listed(
        "classic",
        "cluster.group.protocol",
        ("classic", "consumer"),
        is_ours=True,
        reason="How nodes share the partitions. classic: cooperative-sticky. consumer: KIP-848;"
        " then the brokers set the session timeout (group.consumer.session.timeout.ms).",
    )
    # The settings of Kafka clients, by librdkafka's names.
    cluster_kafka: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    @property
    def is_clustered(self) -> bool:
        """Whether the log is on a Kafka cluster."""
        return bool(self.cluster_bootstrap_servers)


def kafka_setting(name: str, value: str) -> tuple[str, str]:
    """The name and the value of a Kafka client's setting, from `cluster.kafka.NAME` and its text.

    Raises InvalidSetting if the file that a name with `.file` requires cannot be read.
    """
    own_name = name.removeprefix(KAFKA_PREFIX)
    if not own_name.endswith(_FILE_SUFFIX):
        return own_name, value
    try:
        content = Path(value).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(name, f"cannot read {value}: {error}") from error
    return own_name.removesuffix(_FILE_SUFFIX), content.strip()

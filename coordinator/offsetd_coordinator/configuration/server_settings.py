"""All server settings except the storage's, each declared once.

A setting that Kafka has too has Kafka's name. The storage declares its own settings: those of the
server (`log.retention.hours`, `log.cleaner.threads`) and those of a topic (`segment.ms`). In a
file, the environment and `--set`, a topic's setting means `__consumer_offsets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.configuration.log_config import (
    OFFSETS_TOPIC,
    OFFSETS_TOPIC_LOG_CONFIG,
    LogConfig,
)
from offsetd_storage.configuration.setting_kinds import INT32_MAX
from offsetd_storage.configuration.settings import (
    Setting,
    address,
    listed,
    milliseconds,
    settings_of,
    text,
    whole,
)
from offsetd_storage.configuration.topic_configs import (
    SERVER_SETTINGS,
    TOPIC_SETTINGS,
    SettingEntry,
    Source,
    TopicConfigs,
    entry_of,
)
from offsetd_storage.errors import InvalidSetting

from offsetd_coordinator.configuration.cluster_settings import ClusterSettings
from offsetd_coordinator.configuration.dynamic_settings import DYNAMIC_CLASSES, DYNAMIC_SETTINGS
from offsetd_coordinator.configuration.internal_topic_configs import (
    brought_settings,
    topic_floors,
    topic_rules,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from offsetd_storage.configuration import server_config


@attrs.frozen(kw_only=True)
class Settings(ClusterSettings):
    """The server's values. Raises InvalidSetting if some do not fit each other."""

    # The folder and the addresses.
    data_dir: str = text(
        "./offsetd-data",
        "data.dir",
        kafka_name="log.dir",
        reason="The folder of the log. Only one server or broker may use it at a time.",
    )
    listen_address: str = address(
        "127.0.0.1:7171",
        "listen.address",
        kafka_name="listeners",
        reason="HOST:PORT to serve on. Beyond loopback, it needs TLS and rules.",
    )
    advertised_address: str = address(
        "",
        "advertised.address",
        may_be_empty=True,
        kafka_name="advertised.listeners",
        reason="HOST:PORT that clients are told. Empty: the address served on.",
    )
    node_id: str = text("0", "node.id", reason="The name of this node among the nodes.")

    # The log.
    offsets_topic_num_partitions: int | None = whole(
        None,
        "offsets.topic.num.partitions",
        unit="partitions",
        least=1,
        most=10_000,
        reason="Fixed by a new folder (unset: 50), or by a cluster's new topic (unset: 12).",
    )
    offsets_topic_segment_bytes: int = whole(
        OFFSETS_TOPIC_LOG_CONFIG.segment_bytes_max,
        "offsets.topic.segment.bytes",
        unit="bytes",
        least=61,  # Tests have small ones.
        operator_least=1_048_576,
        most=INT32_MAX,
        reason="Segment size of __consumer_offsets. Small, so that cleaning and loading are quick.",
    )
    journal_file_bytes: int = whole(
        33_554_432,
        "journal.file.bytes",
        unit="bytes",
        least=65_536,
        most=2**32,
        is_ours=True,
        reason="Size of each of the two journal files under load. If larger, segments are synced"
        " less often. After a minute without an append, the files shrink to fit the largest batch.",
    )
    num_recovery_threads_per_data_dir: int | None = whole(
        None,
        "num.recovery.threads.per.data.dir",
        unit="threads",
        least=1,
        most=1024,
        reason="Threads that check and load the log at the start. Unset: one for each core.",
    )

    # Commits.
    offset_metadata_max_bytes: int = whole(
        4096,
        "offset.metadata.max.bytes",
        unit="UTF-16 units",
        least=0,
        most=32_767,
        reason="The longest metadata of an offset, in UTF-16 units, as Kafka counts it.",
    )
    offset_commit_value_version: int = listed(
        4,
        "offset.commit.value.version",
        (1, 3, 4),
        is_ours=True,
        reason="Version of the written OffsetCommitValue. Lower it for older brokers; 1 has no"
        " leader epoch.",
    )
    request_id_window_ms: int = milliseconds(
        60_000,
        "request.id.window.ms",
        most=86_400_000,
        is_ours=True,
        reason="How long a request_id is remembered. Must exceed the time for which clients retry.",
    )
    history_ms: int = milliseconds(
        3_600_000,
        "history.ms",
        most=86_400_000 * 366,
        is_ours=True,
        reason="How long the log keeps every commit, for history, restores and watchers. The disk"
        " has to hold them. 0: no longer than request.id.window.ms.",
    )
    request_ids_per_partition_max: int = whole(
        262_144,
        "request.ids.per.partition.max",
        unit="request ids",
        least=0,
        is_ours=True,
        reason="Bounds their memory: 48 bytes each. The oldest ids are forgotten first.",
    )

    # Members of groups.
    group_min_session_timeout_ms: int = milliseconds(
        6000,
        "group.min.session.timeout.ms",
        least=1,
        most=INT32_MAX,
        reason="The shortest session timeout that a member may request.",
    )
    group_max_session_timeout_ms: int = milliseconds(
        1_800_000,
        "group.max.session.timeout.ms",
        least=1,
        most=INT32_MAX,
        reason="The longest session timeout. A dead member keeps its partitions that long.",
    )
    group_consumer_session_timeout_ms: int = milliseconds(
        45_000,
        "group.consumer.session.timeout.ms",
        least=1,
        most=INT32_MAX,
        reason="KIP-848 is not served: members of its groups are removed this long after a start.",
    )
    group_initial_rebalance_delay_ms: int = milliseconds(
        3000,
        "group.initial.rebalance.delay.ms",
        most=INT32_MAX,
        reason="How long an empty group waits for more members, again for each that comes.",
    )
    group_max_size: int = whole(
        INT32_MAX,
        "group.max.size",
        unit="members",
        least=1,
        most=INT32_MAX,
        reason="Most members of a group. Its record has to fit max.message.bytes, too.",
    )

    # Leases of groups.
    lease_min_ttl_ms: int = milliseconds(
        1000,
        "lease.min.ttl.ms",
        least=1,
        most=INT32_MAX,
        is_ours=True,
        reason="The shortest lease of a group that may be requested.",
    )
    lease_max_ttl_ms: int = milliseconds(
        86_400_000,
        "lease.max.ttl.ms",
        least=1,
        most=INT32_MAX,
        is_ours=True,
        reason="The longest lease. A writer that is gone keeps other writers away that long.",
    )

    # Connections and calls.
    socket_request_max_bytes: int = whole(
        4_194_304,
        "socket.request.max.bytes",
        unit="bytes",
        least=1024,
        most=2**30,
        reason="The largest accepted message.",
    )
    queued_max_request_bytes: int = whole(
        67_108_864,
        "queued.max.request.bytes",
        unit="bytes",
        least=1024,
        reason="Bytes of all requests that wait for an answer, and of answers that are being built"
        " or not read yet. Above it, calls are refused and streams wait.",
    )
    request_receive_max_ms: int = milliseconds(
        60_000,
        "request.receive.max.ms",
        least=1000,
        most=INT32_MAX,
        is_ours=True,
        reason="A unary call ends if its message has not arrived whole after this time.",
    )
    request_metadata_max_bytes: int = whole(
        16_384,
        "request.metadata.max.bytes",
        unit="bytes",
        least=1024,
        most=1_048_576,
        is_ours=True,
        reason="The largest headers of a call.",
    )
    max_connections: int = whole(
        1000,
        "max.connections",
        unit="connections",
        least=1,
        most=1_000_000,
        reason="Of all clients. Above it, idle connections are closed. Each needs a descriptor.",
    )
    connection_calls_max: int = whole(
        128,
        "connection.calls.max",
        unit="calls",
        least=1,
        most=INT32_MAX,
        is_ours=True,
        reason="Open calls on one connection. Set it well above the number of a client's callers.",
    )
    connections_max_idle_ms: int = milliseconds(
        300_000,
        "connections.max.idle.ms",
        least=1000,
        most=INT32_MAX,
        reason="A connection without a call is closed after this time.",
    )
    connections_unread_max_ms: int = milliseconds(
        30_000,
        "connections.unread.max.ms",
        least=1000,
        most=INT32_MAX,
        is_ours=True,
        reason="A connection that reads none of its answers for this time is closed.",
    )
    connections_max_age_ms: int = milliseconds(
        1_800_000,
        "connections.max.age.ms",
        least=1000,
        most=INT32_MAX,
        is_ours=True,
        reason="A connection is renewed after this time, so that clients spread over nodes again.",
    )
    connections_age_grace_ms: int = milliseconds(
        300_000,
        "connections.age.grace.ms",
        most=INT32_MAX,
        is_ours=True,
        reason="Time that the calls of a connection have to end when it is renewed.",
    )
    connection_handshake_max_ms: int = milliseconds(
        10_000,
        "connection.handshake.max.ms",
        least=100,
        most=INT32_MAX,
        is_ours=True,
        reason="A connection that does not start HTTP/2 is closed after this time.",
    )
    keepalive_interval_ms: int = milliseconds(
        60_000,
        "keepalive.interval.ms",
        least=1000,
        most=INT32_MAX,
        is_ours=True,
        reason="A quiet connection gets a keepalive ping after this time.",
    )
    keepalive_reply_max_ms: int = milliseconds(
        20_000,
        "keepalive.reply.max.ms",
        least=1000,
        most=INT32_MAX,
        is_ours=True,
        reason="The connection is closed if the ping is not answered in this time.",
    )
    stream_unanswered_commits_max: int = whole(
        1024,
        "stream.unanswered.commits.max",
        unit="commits",
        least=1,
        most=1_000_000,
        is_ours=True,
        reason="Commits of one stream that wait for results. Above it, the stream is not read.",
    )
    reflection_enable: str = listed(
        "auto",
        "reflection.enable",
        ("auto", "true", "false"),
        is_ours=True,
        reason="gRPC reflection, for grpcurl. auto: on loopback only.",
    )

    # Start and stop.
    drain_notice_ms: int = milliseconds(
        0,
        "drain.notice.ms",
        most=600_000,
        is_ours=True,
        reason="At a stop, how long calls are still accepted while health says NOT_SERVING, for"
        " load balancers.",
    )
    drain_max_ms: int = milliseconds(
        10_000,
        "drain.max.ms",
        most=600_000,
        is_ours=True,
        reason="At a stop, how long calls in flight have to end.",
    )
    logging_level: str = listed(
        "info",
        "logging.level",
        ("debug", "info", "warning", "error"),
        is_ours=True,
        reason="The lowest level of log lines that are shown.",
    )
    logging_format: str = listed(
        "auto",
        "logging.format",
        ("auto", "console", "json"),
        is_ours=True,
        reason="auto: readable lines on a terminal, else JSON lines.",
    )
    logging_cleaner_file: str = text(
        "log-cleaner.log",
        "logging.cleaner.file",
        is_ours=True,
        reason="Kafka's report of each round of cleaning; a relative name is in the data folder."
        " Empty: none.",
    )
    kafka_bootstrap_servers: str = text(
        "",
        "kafka.bootstrap.servers",
        is_ours=True,
        reason="The cluster that resets ask for the bounds of partitions. Empty: none.",
    )
    metrics_address: str = address(
        "127.0.0.1:9464",
        "metrics.address",
        may_be_empty=True,
        is_ours=True,
        reason="HOST:PORT for Prometheus: GET /metrics. Empty: no port.",
    )
    cleaner_stall_ms: int = milliseconds(
        120_000,
        "cleaner.stall.ms",
        least=1000,
        most=INT32_MAX,
        is_ours=True,
        reason="If a cleaner thread makes no progress for this time, health says that the cleaner"
        " does not work.",
    )

    # The text of each given setting, the storage's too, by canonical name.
    said: Mapping[str, str] = attrs.field(factory=dict)
    # The settings of each topic and the server until they are changed at run time.
    configs: TopicConfigs = attrs.field(init=False)

    @configs.default
    def _static_configs(self) -> TopicConfigs:
        if not self.data_dir:
            raise InvalidSetting("data.dir", "it is empty: give the path of a folder")
        for least, most in _BOUNDS:
            bounds = getattr(self, OWN_FIELDS[least]), getattr(self, OWN_FIELDS[most])
            if bounds[0] > bounds[1]:
                raise InvalidSetting(least, f"{bounds[0]} ms is above {most}, {bounds[1]}")
        return _configs(self)

    @property
    def address_told(self) -> str:
        """The HOST:PORT that clients must use."""
        return self.advertised_address or self.listen_address

    @property
    def log(self) -> LogConfig:
        """The settings of the logs of `__consumer_offsets`."""
        return self.configs.log_config(OFFSETS_TOPIC)

    @property
    def cleaner(self) -> server_config.CleanerConfig:
        """Settings of the cleaner's threads."""
        return self.configs.cleaner

    @property
    def retention(self) -> server_config.RetentionConfig:
        """Settings of retention for all topics."""
        return self.configs.retention

    @property
    def background(self) -> server_config.BackgroundConfig:
        """Settings of periodic tasks."""
        return self.configs.background

    @property
    def disk(self) -> server_config.DiskConfig:
        """Settings of the disk space that is kept free."""
        return self.configs.disk


def _configs(settings: Settings) -> TopicConfigs:
    said = settings.said
    configs = TopicConfigs(
        brought=brought_settings(offsets_segment_bytes=settings.offsets_topic_segment_bytes),
        static_server={
            name: said[name] for name in (*SERVER_SETTINGS, *DYNAMIC_SETTINGS) if name in said
        },
        static_topics={
            OFFSETS_TOPIC: {name: said[name] for name in TOPIC_SETTINGS if name in said}
        },
        floors=topic_floors(
            request_id_window_ms=settings.request_id_window_ms, history_ms=settings.history_ms
        ),
        restart_entries=tuple(_restart_entries(settings)),
        more_classes=DYNAMIC_CLASSES,
    )
    largest = configs.log_config(OFFSETS_TOPIC).message_bytes_max
    configs = attrs.evolve(configs, rules=topic_rules(message_bytes_max=largest))
    configs.check()
    return configs


def _restart_entries(settings: Settings) -> Iterator[SettingEntry]:
    for field, setting in _OWN.items():
        value = getattr(settings, field)
        is_said = setting.name in settings.said or value != setting.default
        yield entry_of(
            setting,
            value=setting.kind.render(value),
            default=setting.kind.render(setting.default),
            source=Source.STATIC_SERVER if is_said else Source.DEFAULT,
            is_dynamic=False,
        )


_OWN: Final = settings_of(Settings)
OWN_FIELDS: Final = {setting.name: field for field, setting in _OWN.items()}
# Pairs of a least and a most value, in milliseconds.
_BOUNDS: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("lease.min.ttl.ms", "lease.max.ttl.ms"),
)
# The server's settings and a topic's, by name.
ALL_SETTINGS: Final[dict[str, Setting]] = (
    {setting.name: setting for setting in _OWN.values()}
    | SERVER_SETTINGS
    | DYNAMIC_SETTINGS
    | TOPIC_SETTINGS
)


def default_entries() -> list[SettingEntry]:
    """Every setting with its default: the server's, then those of `__consumer_offsets`."""
    configs = Settings().configs
    return [*configs.describe(None), *configs.describe(OFFSETS_TOPIC)]

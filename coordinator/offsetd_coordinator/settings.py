"""Every setting of the server, each declared once.

A setting's name is its attribute's, with dots for underscores: `segment_ms` is `segment.ms`.
Kafka's name is used wherever Kafka has one. A value comes from, in this order: `--set NAME=VALUE`,
the environment (`OFFSETD_SEGMENT_MS`), the TOML file, the default. A name that does not exist is an
error.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Declaration", "Settings", "SettingsError", "declarations", "load_settings"]

_ENVIRONMENT_PREFIX = "OFFSETD_"
# Names with our prefix that are not settings: what clients and test runs read, and what Kubernetes
# puts into every pod beside a service that is called `offsetd`.
_ENVIRONMENT_NOT_OURS = re.compile(
    r"ADDRESS|REQUIRE|NIGHTLY|TEST_.*|SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_.*)?"
)
_INT64_MAX = 2**63 - 1
PORT_MAX = 65_535
UNIX_PREFIXES = ("unix:", "unix-abstract:")


class SettingsError(ValueError):
    """A setting that does not exist, or a value that is not allowed; says which and why."""


@attrs.frozen(kw_only=True)
class Declaration:
    """What a setting is: its type, bounds and unit, and why it has the default it has."""

    name: str
    kind: type
    default: object
    unit: str
    minimum: int | None
    maximum: int | None
    choices: tuple[object, ...]
    is_address: bool
    kafka_name: str | None
    reason: str

    @property
    def environment_name(self) -> str:
        """The environment variable that sets it."""
        return _ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")

    @property
    def bounds(self) -> str:
        """The allowed values, for people."""
        if self.choices:
            return " | ".join(str(choice) for choice in self.choices)
        if self.kind is bool:
            return "true | false"
        if self.is_address:
            return f"HOST:PORT, port 0 to {PORT_MAX}"
        if self.minimum is None:
            return "text"
        if self.maximum in (None, _INT64_MAX):
            return f"{self.minimum} or more"
        return f"{self.minimum} to {self.maximum}"

    def check(self, value: object, source: str) -> object:
        """`value` as this setting's type. Raises SettingsError if it is not allowed."""
        value = self._convert(value, source)
        if self.choices and value not in self.choices:
            raise SettingsError(f"{self.name} = {value!r} ({source}): must be {self.bounds}")
        if self.is_address and value != self.default and not is_address(str(value)):
            raise SettingsError(f"{self.name} = {value!r} ({source}): must be {self.bounds}")
        if isinstance(value, int) and not isinstance(value, bool):
            too_small = self.minimum is not None and value < self.minimum
            too_large = self.maximum is not None and value > self.maximum
            if too_small or too_large:
                unit = f" {self.unit}" if self.unit else ""
                raise SettingsError(
                    f"{self.name} = {value} ({source}): must be {self.bounds}{unit}"
                )
        return value

    def _convert(self, value: object, source: str) -> object:
        if (
            self.kind is int
            and isinstance(value, str)
            and re.fullmatch(r"-?[0-9](_?[0-9]){0,24}", value.strip())
        ):
            return int(value)
        if self.kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if self.kind is str and isinstance(value, bool):
            return str(value).lower()  # `reflection.enable = true` in a file, beside "auto"
        if type(value) is not self.kind:
            wanted = {int: "a whole number", bool: "true or false", str: "text"}[self.kind]
            raise SettingsError(f"{self.name} = {value!r} ({source}): must be {wanted}")
        return value


def _declare(kind: type, default: object, reason: str, **facts: object) -> Any:
    """An attrs field; the declaration travels in its metadata."""
    metadata = {
        "unit": "",
        "minimum": None,
        "maximum": None,
        "choices": (),
        "is_address": False,
        "kafka_name": None,
        **facts,
    }
    return attrs.field(default=default, metadata={"kind": kind, "reason": reason, **metadata})


def _whole(
    default: int | None,
    reason: str,
    *,
    unit: str,
    minimum: int = 0,
    maximum: int = _INT64_MAX,
    kafka_name: str | None = None,
    choices: tuple[int, ...] = (),
) -> Any:
    return _declare(
        int,
        default,
        reason,
        unit=unit,
        minimum=minimum,
        maximum=maximum,
        kafka_name=kafka_name,
        choices=choices,
    )


def _text(
    default: str, reason: str, *, kafka_name: str | None = None, choices: tuple[str, ...] = ()
) -> Any:
    return _declare(str, default, reason, kafka_name=kafka_name, choices=choices)


def _address(default: str, reason: str, *, kafka_name: str) -> Any:
    return _declare(str, default, reason, kafka_name=kafka_name, is_address=True)


def is_address(text: str) -> bool:
    """Whether it is HOST:PORT, an IPv6 host in brackets, or gRPC's name for a Unix socket."""
    if text.startswith(UNIX_PREFIXES):
        return True
    matched = re.fullmatch(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:\s]*):([0-9]{1,5})", text, re.ASCII)
    return matched is not None and int(matched[1]) <= PORT_MAX


@attrs.frozen(kw_only=True)
class Settings:
    """The values the server runs with."""

    # Where it lives.
    data_dir: str = _text(
        "./offsetd-data",
        "The folder of the log. One server, or one broker, at a time.",
        kafka_name="log.dir",
    )
    listen_address: str = _address(
        "127.0.0.1:7171",
        "HOST:PORT to serve on. Loopback, because nothing guards the port yet.",
        kafka_name="listeners",
    )
    advertised_address: str = _address(
        "",
        "HOST:PORT that clients are told. Empty: the address served on.",
        kafka_name="advertised.listeners",
    )
    node_id: str = _text("0", "This node's name among its peers.", kafka_name="node.id")

    # The log.
    offsets_topic_num_partitions: int | None = _whole(
        None,
        "Fixed when a folder is made. Unset: what the folder has, and 50 in a new one.",
        unit="partitions",
        minimum=1,
        maximum=10_000,
        kafka_name="offsets.topic.num.partitions",
    )
    offsets_topic_segment_bytes: int = _whole(
        104_857_600,
        "Small, so that cleaning and loading are quick.",
        unit="bytes",
        minimum=1024,
        maximum=2**31 - 1,
        kafka_name="offsets.topic.segment.bytes",
    )
    segment_ms: int = _whole(
        604_800_000,
        "A segment is closed at this age, so that it can be cleaned.",
        unit="ms",
        minimum=1,
        kafka_name="segment.ms",
    )
    segment_jitter_ms: int = _whole(
        0, "Spreads the closing of segments over time.", unit="ms", kafka_name="segment.jitter.ms"
    )
    segment_index_bytes: int = _whole(
        10_485_760,
        "A segment is closed when its index is this large.",
        unit="bytes",
        minimum=24,
        maximum=2**31 - 1,
        kafka_name="segment.index.bytes",
    )
    index_interval_bytes: int = _whole(
        4096,
        "One index entry for so many bytes of log.",
        unit="bytes",
        maximum=2**31 - 1,
        kafka_name="index.interval.bytes",
    )
    max_message_bytes: int = _whole(
        1_048_588,
        "The largest record batch, and so the largest commit: one commit is one batch.",
        unit="bytes",
        minimum=1024,
        maximum=2**26 - 4096,  # What a frame of the journal takes.
        kafka_name="max.message.bytes",
    )
    preallocate_step_bytes: int = _whole(
        65_536,
        "Disk blocks are reserved ahead, so that a full disk refuses a commit and fails no flush.",
        unit="bytes",
        minimum=4096,
        maximum=2**30,
    )
    journal_file_bytes: int = _whole(
        33_554_432,
        "Size of each of the two journal files. Larger: segments are synced less often.",
        unit="bytes",
        minimum=65_536,
        maximum=2**32,
    )
    log_flush_offset_checkpoint_interval_ms: int = _whole(
        60_000,
        "How often segments are synced and recovery points move, unless the journal asks earlier.",
        unit="ms",
        minimum=1,
        kafka_name="log.flush.offset.checkpoint.interval.ms",
    )
    num_recovery_threads_per_data_dir: int | None = _whole(
        None,
        "Threads that check and load the log at start. Unset: one for each core.",
        unit="threads",
        minimum=1,
        maximum=1024,
        kafka_name="num.recovery.threads.per.data.dir",
    )

    # Commits.
    offset_metadata_max_bytes: int = _whole(
        4096,
        "The longest metadata of an offset, in UTF-16 units, as Kafka counts it.",
        unit="UTF-16 units",
        maximum=32_767,
        kafka_name="offset.metadata.max.bytes",
    )
    offset_commit_value_version: int = _whole(
        4,
        "Of the OffsetCommitValue written. Lower for older brokers; 1 loses the leader epoch.",
        unit="",
        choices=(1, 3, 4),
    )
    request_id_window_ms: int = _whole(
        60_000,
        "How long a request_id is remembered. Above the total time that clients retry.",
        unit="ms",
        maximum=86_400_000,
    )
    request_ids_per_partition_max: int = _whole(
        262_144,
        "The oldest are forgotten first, so that memory is bounded: 48 bytes each.",
        unit="request ids",
    )

    # Connections and calls.
    socket_request_max_bytes: int = _whole(
        4_194_304,
        "The largest message taken.",
        unit="bytes",
        minimum=1024,
        maximum=2**30,
        kafka_name="socket.request.max.bytes",
    )
    queued_max_request_bytes: int = _whole(
        67_108_864,
        "Bytes of all requests that wait for an answer; beyond, calls are refused, streams wait.",
        unit="bytes",
        minimum=1024,
        kafka_name="queued.max.request.bytes",
    )
    request_metadata_max_bytes: int = _whole(
        16_384, "The largest headers of a call.", unit="bytes", minimum=1024, maximum=1_048_576
    )
    max_connections: int = _whole(
        1000,
        "Over all clients; each needs a file descriptor.",
        unit="connections",
        minimum=1,
        maximum=1_000_000,
        kafka_name="max.connections",
    )
    connection_calls_max: int = _whole(
        128, "Calls open at one time on one connection.", unit="calls", minimum=1, maximum=2**31 - 1
    )
    connections_max_idle_ms: int = _whole(
        300_000,
        "A connection without a call is closed after this time.",
        unit="ms",
        minimum=1000,
        maximum=2**31 - 1,
        kafka_name="connections.max.idle.ms",
    )
    connections_max_age_ms: int = _whole(
        1_800_000,
        "A connection is renewed after this time, so that clients spread over nodes again.",
        unit="ms",
        minimum=1000,
        maximum=2**31 - 1,
    )
    connections_age_grace_ms: int = _whole(
        300_000,
        "Time for the calls of a connection that is being renewed.",
        unit="ms",
        maximum=2**31 - 1,
    )
    connection_handshake_max_ms: int = _whole(
        10_000,
        "A connection that does not speak is closed after this time.",
        unit="ms",
        minimum=100,
        maximum=2**31 - 1,
    )
    keepalive_interval_ms: int = _whole(
        60_000,
        "A quiet connection is asked for a sign of life.",
        unit="ms",
        minimum=1000,
        maximum=2**31 - 1,
    )
    keepalive_reply_max_ms: int = _whole(
        20_000,
        "The connection is closed if the sign does not come.",
        unit="ms",
        minimum=1000,
        maximum=2**31 - 1,
    )
    stream_unanswered_commits_max: int = _whole(
        1024,
        "Commits of one stream that wait for their result; beyond, the stream is not read.",
        unit="commits",
        minimum=1,
        maximum=1_000_000,
    )
    reflection_enable: str = _text(
        "auto",
        "gRPC reflection, for grpcurl. auto: on loopback only.",
        choices=("auto", "true", "false"),
    )

    # Start and stop.
    drain_notice_ms: int = _whole(
        0,
        "At a stop, how long calls are still taken while health says NOT_SERVING, for balancers.",
        unit="ms",
        maximum=600_000,
    )
    drain_max_ms: int = _whole(
        10_000, "At a stop, how long calls in flight may take.", unit="ms", maximum=600_000
    )
    logging_level: str = _text(
        "info",
        "The least serious lines that are shown.",
        choices=("debug", "info", "warning", "error"),
    )
    logging_format: str = _text(
        "auto",
        "auto: for people on a terminal, else JSON lines.",
        choices=("auto", "console", "json"),
    )

    @property
    def address_told(self) -> str:
        """HOST:PORT that clients are to use."""
        return self.advertised_address or self.listen_address


def declarations() -> Iterator[Declaration]:
    """All settings, in the order in which they are declared."""
    for field in attrs.fields(Settings):
        yield Declaration(
            name=field.name.replace("_", "."), default=field.default, **field.metadata
        )


_BY_NAME: dict[str, Declaration] = {declaration.name: declaration for declaration in declarations()}


def load_settings(
    *,
    toml: str = "",
    toml_name: str = "the file",
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
) -> Settings:
    """The settings from their sources: `assignments` (`NAME=VALUE`) over `environment` over `toml`.

    Raises SettingsError for an unknown name, a value that is not allowed, values that do not fit
    each other, or text that is not TOML.
    """
    values: dict[str, Any] = {}
    values.update(_from_toml(toml, toml_name))
    values.update(_from_environment(environment or {}))
    values.update(_from_assignments(assignments))
    settings = Settings(**{name.replace(".", "_"): value for name, value in values.items()})
    # Loaded only now: it imports the store, and to list the settings needs none of it.
    from offsetd_coordinator.combined_settings import misfit  # noqa: PLC0415

    if (why := misfit(settings)) is not None:
        raise SettingsError(why)
    return settings


def _declaration(name: str, source: str) -> Declaration:
    declaration = _BY_NAME.get(name)
    if declaration is None:
        nearest = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.0)
        raise SettingsError(f"unknown setting {name} ({source}); did you mean {nearest[0]}?")
    return declaration


def _from_toml(text: str, file_name: str) -> Iterator[tuple[str, object]]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file_name}: {error}") from error
    for name, value in _flatten(document, ""):
        yield name, _declaration(name, file_name).check(value, file_name)


def _flatten(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """TOML reads a dotted name as tables inside tables; this puts the names together again."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    by_variable = {declaration.environment_name: declaration for declaration in _BY_NAME.values()}
    for variable, value in environment.items():
        suffix = variable.removeprefix(_ENVIRONMENT_PREFIX)
        if suffix == variable or (
            variable not in by_variable and _ENVIRONMENT_NOT_OURS.fullmatch(suffix)
        ):
            continue
        if variable not in by_variable:
            nearest = difflib.get_close_matches(variable, by_variable, n=1, cutoff=0.0)[0]
            raise SettingsError(
                f"unknown setting {variable} (environment); did you mean {nearest}?"
            )
        declaration = by_variable[variable]
        yield declaration.name, declaration.check(value, f"environment {variable}")


def _from_assignments(assignments: Sequence[str]) -> Iterator[tuple[str, object]]:
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingsError(f"--set {assignment}: must be NAME=VALUE")
        name = name.strip()
        yield name, _declaration(name, "--set").check(value.strip(), "--set")

"""The sources of settings: which are read, in which order, and how a wrong one is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.configuration.dynamic_settings import DYNAMIC_SETTINGS
from offsetd_coordinator.configuration.server_settings import ALL_SETTINGS, OWN_FIELDS, Settings
from offsetd_coordinator.configuration.settings_sources import (
    SettingsError,
    environment_name,
    load_settings,
)
from offsetd_storage.configuration.log_config import COMPACT, OFFSETS_TOPIC
from offsetd_storage.configuration.setting_kinds import (
    Address,
    Choice,
    Flag,
    Listed,
    Real,
    Text,
    Whole,
)
from offsetd_storage.configuration.topic_configs import SERVER_SETTINGS, Source

if TYPE_CHECKING:
    from offsetd_storage.configuration.settings import Setting

OF_SERVER = {*SERVER_SETTINGS, *DYNAMIC_SETTINGS, *OWN_FIELDS}
# Where any value would not do, for the sake of others.
WORTH = {
    "group.max.session.timeout.ms": "60000",  # Above the shortest, as the next.
    "lease.max.ttl.ms": "60000",
    "cleanup.policy": "",
    "max.message.bytes": "2000",
    "message.max.bytes": "2000",
    "max.compaction.lag.ms": "90000",
    "log.cleaner.max.compaction.lag.ms": "90000",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "journal.file.bytes": "30000000",
    "cluster.standby.copies": "2",
}


def other_value(setting: Setting) -> str:
    """An allowed value, as text, that is not the default."""
    kind = setting.operator_kind
    if setting.name in WORTH:
        return WORTH[setting.name]
    if isinstance(kind, Whole):
        least = 1 if kind.least is None else kind.least
        return str(least + 1 if setting.default == least else max(least, 1))
    if isinstance(kind, Real):
        return "0.25"
    if isinstance(kind, Flag):
        return str(not setting.default).lower()
    if isinstance(kind, Choice):
        return next(
            name
            for name, member in kind.names.items()
            if setting.default not in (member, frozenset((member,)))
        )
    if isinstance(kind, Listed):
        return str(next(each for each in kind.values if each != setting.default))
    if isinstance(kind, Address):
        return "elsewhere:1"
    assert isinstance(kind, Text)
    return "other"


def value_of(settings: Settings, name: str) -> tuple[str, Source]:
    topic = None if name in OF_SERVER else OFFSETS_TOPIC
    [found] = [each for each in settings.configs.describe(topic) if each.name == name]
    return found.value, found.source


@pytest.mark.parametrize("name", sorted(ALL_SETTINGS))
def test_every_setting_is_read_from_the_file_the_environment_and_the_command_line(
    name: str,
) -> None:
    setting = ALL_SETTINGS[name]
    # No history and no window, as else a floor hides the least lag; and that is 1 all the same.
    text = "2" if name == "min.compaction.lag.ms" else other_value(setting)
    window = {"OFFSETD_REQUEST_ID_WINDOW_MS": "0", "OFFSETD_HISTORY_MS": "0"}
    window.pop(environment_name(name), None)
    found = [
        load_settings(toml=f'{name} = "{text}"', environment=window),
        load_settings(environment={environment_name(name): text} | window),
        load_settings(assignments=[f"{name}={text}"], environment=window),
    ]
    if isinstance(setting.kind, Whole | Real | Flag):
        found.append(load_settings(toml=f"{name} = {text}", environment=window))
    said = load_settings(environment=window)
    for settings in found:
        value, source = value_of(settings, name)
        assert setting.kind.parse(value) == setting.kind.parse(text)
        assert value != value_of(said, name)[0]
        is_of_topic = name not in OF_SERVER
        assert source is (Source.STATIC_TOPIC if is_of_topic else Source.STATIC_SERVER)
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    ("toml", "environment", "assignments", "expected"),
    [
        ("", {}, [], 604_800_000),
        ("segment.ms = 1000", {}, [], 1000),
        ("[segment]\nms = 1000", {}, [], 1000),
        ('"segment.ms" = 1000', {}, [], 1000),
        ("segment.ms = 1000", {"OFFSETD_SEGMENT_MS": "2000"}, [], 2000),
        ("segment.ms = 1000", {"OFFSETD_SEGMENT_MS": "2000"}, ["segment.ms=3000"], 3000),
        ("", {}, ["segment.ms=3000", "segment.ms = 3_001"], 3001),
        ("segment.ms = 1_000", {"OFFSETD_INTERNAL_SEGMENT_MS": "2000"}, [], 2000),
        ("segment.ms = 1_000", {"OFFSETD_LOG_ROLL_MS": "2000"}, ["log.roll.ms=1"], 1000),
        ("log.roll.ms = 1_000", {"OFFSETD_LOG_ROLL_HOURS": "2"}, [], 1000),
        ("log.roll.hours = 2", {}, [], 7_200_000),
    ],
)
def test_the_nearer_source_wins(
    toml: str, environment: dict[str, str], assignments: list[str], expected: int
) -> None:
    settings = load_settings(toml=toml, environment=environment, assignments=assignments)
    assert settings.log.segment_ms == expected


@pytest.mark.parametrize(
    "toml",
    ['cleanup.policy = "compact"', 'cleanup.policy = ["compact"]', "[cleanup]\npolicy='compact'"],
)
def test_a_list_in_the_file_is_a_list(toml: str) -> None:
    assert load_settings(toml=toml).log.cleanup_policy == COMPACT


def test_a_boolean_in_the_file_is_a_word_where_a_setting_has_words() -> None:
    assert load_settings(toml="reflection.enable = false").reflection_enable == "false"


@pytest.mark.parametrize(
    ("toml", "environment", "assignments", "message"),
    [
        (
            "segment.mss = 1",
            {},
            [],
            "segment.mss (the file): no such setting; did you mean segment.ms?",
        ),
        (
            "",
            {"OFFSETD_SEGMNT_MS": "1"},
            [],
            "OFFSETD_SEGMNT_MS (environment): no such setting; did you mean OFFSETD_SEGMENT_MS",
        ),
        ("", {"OFFSETD_WHATEVER": "1"}, [], "OFFSETD_WHATEVER (environment): no such setting"),
        ("", {}, ["max.mesage.bytes=1"], "did you mean max.message.bytes?"),
        ("", {}, ["log.cleaner.thread=1"], "did you mean log.cleaner.threads?"),
        ("", {}, ["internal.segment.byte=1"], "did you mean segment.bytes?"),
        ("", {}, ["segment.ms"], "must be NAME=VALUE"),
        ("", {}, ["segment.ms=soon"], "segment.ms (--set): 'soon' is not a whole number from 1"),
        ("", {}, ["segment.ms="], "segment.ms (--set): '' is not a whole number from 1"),
        ("", {}, ["segment.ms=0"], "segment.ms (--set): 0 is not a whole number from 1 to 9223372"),
        ("", {}, ["segment.bytes=65536"], "65536 is not a whole number from 1048576"),
        ("", {}, ["offsets.topic.segment.bytes=65536"], "65536 is not a whole number from 1048576"),
        ("", {}, ["internal.segment.bytes=6"], "6 is not a whole number from 61"),
        ("", {}, ["offset.commit.value.version=2"], "'2' is not one of 1, 3, 4"),
        (
            "",
            {},
            ["offsets.topic.num.partitions=0"],
            "0 is not a whole number from 1 to 10000 part",
        ),
        (
            "",
            {},
            ["listen.address=localhost"],
            "(--set): localhost is not HOST:PORT, port 0 to 65535",
        ),
        ("", {}, ["listen.address=127.0.0.1:seventy"], "is not HOST:PORT"),
        ("", {}, ["listen.address=127.0.0.1:65536"], "is not HOST:PORT"),
        ("", {}, ["listen.address=::1:7171"], "is not HOST:PORT"),
        ("", {}, ["listen.address="], "'' is not HOST:PORT"),
        ("", {}, ["advertised.address=7171"], "is not HOST:PORT"),
        ("", {}, ["journal.file.bytes=65536"], "is too small for max.message.bytes = 1048588"),
        ("", {}, ["max.message.bytes=60000000"], "journal.file.bytes = 33554432 is too small for"),
        (
            "",
            {},
            ["max.message.bytes=1023"],
            "max.message.bytes = 1023 of __consumer_offsets: must",
        ),
        ("", {}, ["message.max.bytes=67104769"], "must be 1024 to 67104768 bytes"),
        ("", {}, ["cleanup.policy=delete"], "cleanup.policy: delete is not for __consumer_offsets"),
        (
            "",
            {},
            ["max.compaction.lag.ms=59999"],
            "3600000 ms is above max.compaction.lag.ms, 59999",
        ),
        (
            "",
            {},
            ["group.max.session.timeout.ms=5999"],
            "6000 ms is above group.max.session.timeout.ms, 5999",
        ),
        ("", {}, ["lease.min.ttl.ms=86400001"], "86400001 ms is above lease.max.ttl.ms, 86400000"),
        ("", {}, ["lease.max.ttl.ms=999"], "lease.min.ttl.ms: 1000 ms is above lease.max.ttl.ms"),
        ("", {}, ["log.retention.ms=0"], "log.retention.ms: 0 is neither -1, for never"),
        ("", {}, ["log.cleaner.threads=128"], "for 128 threads are not more than 1048576"),
        ("segment.ms = 1.5", {}, [], "'1.5' is not a whole number"),
        ("segment.ms = true", {}, [], "'true' is not a whole number"),
        ("segment.ms = 2026-11-21", {}, [], "segment.ms (the file): 2026-11-21 is neither text"),
        ("", {}, ["reflection.enable=perhaps"], "'perhaps' is not one of auto, true, false"),
        ("segment.ms = ", {}, [], "the file: "),
        ("", {"OFFSETD_LOGGING_LEVEL": "loud"}, [], "environment OFFSETD_LOGGING_LEVEL"),
    ],
)
def test_a_wrong_setting_is_one_clear_error(
    toml: str, environment: dict[str, str], assignments: list[str], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(toml=toml, environment=environment, assignments=assignments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "variable",
    [
        "OFFSETD_ADDRESS",
        "OFFSETD_TLS",
        "OFFSETD_TLS_CA",
        "OFFSETD_TOKEN",
        "OFFSETD_REQUIRE",
        "OFFSETD_TEST_KILLS",
        "OFFSETD_SERVICE_HOST",
        "OFFSETD_SERVICE_PORT",
        "OFFSETD_SERVICE_PORT_GRPC",
        "OFFSETD_PORT",
        "OFFSETD_PORT_7171_TCP_ADDR",
        "PATH",
    ],
)
def test_variables_that_are_not_settings_are_left_alone(variable: str) -> None:
    assert load_settings(environment={variable: "tcp://10.0.0.1:7171"}) == Settings()


@pytest.mark.parametrize(
    "address", ["offsets:7171", "[::1]:0", "[fe80::1%eth0]:7171", ":7171", "unix:/run/offsetd.sock"]
)
def test_an_address_is_a_host_and_a_port_or_a_socket(address: str) -> None:
    assert load_settings(assignments=[f"listen.address={address}"]).listen_address == address
    assert load_settings(assignments=["advertised.address="]).address_told == "127.0.0.1:7171"

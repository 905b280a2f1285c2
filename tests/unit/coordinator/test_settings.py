"""The settings: sources and their order, names, bounds."""

from __future__ import annotations

import re

import attrs
import pytest
from offsetd_coordinator.settings import Settings, SettingsError, declarations, load_settings
from shards import answer, commit, entry, new_shard

DECLARATIONS = list(declarations())


def test_every_setting_has_a_reason_and_an_allowed_default() -> None:
    for declaration in DECLARATIONS:
        assert declaration.reason.endswith("."), declaration.name
        if declaration.default is not None:
            assert declaration.check(declaration.default, "default") == declaration.default
        if declaration.kind is int and not declaration.choices:
            assert declaration.unit, declaration.name


def test_no_setting_is_a_table_of_another_and_no_two_share_a_variable() -> None:
    names = [declaration.name for declaration in DECLARATIONS]
    assert not [(a, b) for a in names for b in names if b.startswith(a + ".")]
    assert len({declaration.environment_name for declaration in DECLARATIONS}) == len(names)


def test_the_defaults_are_kafkas_where_kafka_has_the_setting() -> None:
    settings = load_settings()
    assert settings.offsets_topic_segment_bytes == 104_857_600
    assert settings.segment_ms == 604_800_000
    assert settings.index_interval_bytes == 4096
    assert settings.max_message_bytes == 1_048_588
    assert settings.offset_metadata_max_bytes == 4096
    assert settings.log_flush_offset_checkpoint_interval_ms == 60_000
    assert settings.listen_address == "127.0.0.1:7171"
    assert settings.data_dir == "./offsetd-data"


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
    ],
)
def test_the_nearer_source_wins(
    toml: str, environment: dict[str, str], assignments: list[str], expected: int
) -> None:
    settings = load_settings(toml=toml, environment=environment, assignments=assignments)
    assert settings.segment_ms == expected


@pytest.mark.parametrize(
    ("toml", "environment", "assignments", "message"),
    [
        (
            "segment.mss = 1",
            {},
            [],
            "unknown setting segment.mss (the file); did you mean segment.ms?",
        ),
        (
            "",
            {"OFFSETD_SEGMNT_MS": "1"},
            [],
            "OFFSETD_SEGMNT_MS (environment); did you mean OFFSETD_SEGMENT_MS",
        ),
        ("", {}, ["max.mesage.bytes=1"], "did you mean max.message.bytes?"),
        ("", {}, ["segment.ms"], "must be NAME=VALUE"),
        ("", {}, ["segment.ms=soon"], "segment.ms = 'soon' (--set): must be a whole number"),
        ("", {}, ["segment.ms=0"], "segment.ms = 0 (--set): must be 1 or more ms"),
        ("", {}, ["offset.commit.value.version=2"], "must be 1 | 3 | 4"),
        ("", {}, ["offsets.topic.num.partitions=0"], "must be 1 to 10000 partitions"),
        ("", {}, ["listen.address=localhost"], "(--set): must be HOST:PORT, port 0 to 65535"),
        ("", {}, ["listen.address=127.0.0.1:seventy"], "must be HOST:PORT"),
        ("", {}, ["listen.address=127.0.0.1:65536"], "must be HOST:PORT"),
        ("", {}, ["listen.address=::1:7171"], "must be HOST:PORT"),
        ("", {}, ["listen.address="], "must be HOST:PORT"),
        ("", {}, ["advertised.address=7171"], "must be HOST:PORT"),
        ("", {}, ["journal.file.bytes=65536"], "is too small for max.message.bytes = 1048588"),
        ("", {}, ["max.message.bytes=60000000"], "journal.file.bytes = 33554432 is too small for"),
        ("segment.ms = 1.5", {}, [], "must be a whole number"),
        ("segment.ms = true", {}, [], "must be a whole number"),
        ("", {}, ["reflection.enable=perhaps"], "must be auto | true | false"),
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


def test_reflection_may_be_a_boolean_in_the_file() -> None:
    assert load_settings(toml="reflection.enable = false").reflection_enable == "false"


def test_settings_are_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Settings().segment_ms = 1  # type: ignore[misc]


def test_a_remembered_request_id_takes_the_bytes_that_are_told() -> None:
    [told] = [
        re.findall(r"([0-9]+) bytes each", declaration.reason)
        for declaration in DECLARATIONS
        if declaration.name == "request.ids.per.partition.max"
    ]
    ids_max = 10_000  # No multiple of the sizes the arrays grow by.
    shard = new_shard(request_ids_per_partition_max=ids_max)
    for number in range(ids_max + 1):
        answer(shard, commit("g", entry("t", 0, 1), request_id=b"%d" % number))
    table = shard._state.offsets._table
    assert len(table.requests) == ids_max
    assert [str((table.requests.nbytes + table.request_slots.nbytes) // ids_max)] == told

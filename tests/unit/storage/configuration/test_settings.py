"""Settings are what Kafka 4.1.1 takes under the same names; the expectations were executed on it,
where no comment says that ours differ."""

from __future__ import annotations

import sys

import attrs
import pytest
from changed_configs import with_settings
from offsetd_storage.configuration.log_config import (
    COMPACT,
    DELETE,
    OFFSETS_TOPIC_LOG_CONFIG,
    LogConfig,
)
from offsetd_storage.configuration.server_config import (
    BackgroundConfig,
    CleanerConfig,
    RetentionConfig,
)
from offsetd_storage.configuration.settings import rendered, settings_of
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.timestamp_type import TimestampType

INT64_MAX = 2**63 - 1
# As dumped from LogConfig's and KafkaConfig's ConfigDef; but for ours, which say why.
KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "0",  # Kafka: 60000.
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "segment.idle.ms": "30000",
    "preallocate.step.bytes": "65536",
    "retention.age.from.roll": "true",
}
KAFKA_SERVER_DEFAULTS = {
    "background.threads": "10",
    "log.cleaner.backoff.ms": "15000",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "log.cleaner.enable": "true",
    "log.cleaner.io.buffer.load.factor": "0.9",
    "log.cleaner.io.buffer.size": "524288",
    "log.cleaner.io.max.bytes.per.second": "1.7976931348623157e+308",
    "log.cleaner.threads": "1",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.scheduler.interval.ms": "9223372036854775807",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
    "log.initial.task.delay.ms": "30000",
    "log.retention.bytes": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.retention.hours": "168",
    "log.retention.minutes": "",
    "log.retention.ms": "",
}


def test_a_topics_defaults_are_kafkas() -> None:
    assert rendered(LogConfig()) == KAFKA_DEFAULTS


def test_the_servers_defaults_are_kafkas() -> None:
    found = [rendered(each()) for each in (CleanerConfig, RetentionConfig, BackgroundConfig)]
    assert found[0] | found[1] | found[2] == KAFKA_SERVER_DEFAULTS


def test_the_offsets_topic_is_compacted_in_segments_of_100_mib() -> None:
    changed = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
    assert rendered(OFFSETS_TOPIC_LOG_CONFIG) == KAFKA_DEFAULTS | changed


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("cleanup.policy", "compact, delete", "cleanup_policy", COMPACT | DELETE),
        ("cleanup.policy", "delete,delete", "cleanup_policy", DELETE),
        ("cleanup.policy", "", "cleanup_policy", frozenset()),
        ("retention.ms", " 5 ", "retention_ms", 5),
        ("retention.ms", "+5", "retention_ms", 5),
        ("retention.ms", "1_000", "retention_ms", 1000),
        ("retention.ms", "-1", "retention_ms", -1),
        ("retention.ms", "0", "retention_ms", 0),
        ("retention.bytes", "-7", "retention_bytes", -7),
        ("min.cleanable.dirty.ratio", "1e-1", "dirty_ratio_min", 0.1),
        ("min.cleanable.dirty.ratio", "1", "dirty_ratio_min", 1.0),
        ("message.timestamp.type", "LogAppendTime", "timestamp_type", TimestampType(1)),
        ("segment.bytes", "1048576", "segment_bytes_max", 1_048_576),
        ("internal.segment.bytes", "65536", "segment_bytes_max", 65_536),
        ("max.compaction.lag.ms", str(INT64_MAX), "compaction_lag_ms_max", INT64_MAX),
        ("retention.age.from.roll", "FALSE", "retention_age_from_roll", False),
    ],
)
def test_what_an_operator_writes_is_taken(name: str, text: str, field: str, value: object) -> None:
    config = with_settings(LogConfig(), {name: text})
    assert config == attrs.evolve(LogConfig(), **{field: value})  # type: ignore[arg-type]
    assert with_settings(LogConfig(), {name: rendered(config)[name.removeprefix("internal.")]}) == (
        config
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("cleanup.policy", "Compact", "'Compact' is not a list out of compact, delete"),
        ("cleanup.policy", "compact,", "'compact,' is not a list out of compact, delete"),
        ("retention.ms", "5L", "'5L' is not a whole number from -1 to 9223372036854775807 ms"),
        ("retention.ms", "1__000", "'1__000' is not a whole number from -1"),
        ("retention.ms", "_1", "'_1' is not a whole number from -1"),
        ("retention.ms", "\u0665", "is not a whole number from -1"),
        ("retention.ms", "", "'' is not a whole number from -1"),
        ("retention.ms", "-2", "-2 is not a whole number from -1"),
        ("retention.ms", str(INT64_MAX + 1), f"{INT64_MAX + 1} is not a whole number from -1"),
        ("retention.ms", "9" * 10_000, "9' is not a whole number from -1"),
        ("retention.bytes", str(-INT64_MAX - 2), "is not a whole number up to"),
        ("min.cleanable.dirty.ratio", "NaN", "'NaN' is not a number from 0 to 1"),  # Kafka: taken.
        ("min.cleanable.dirty.ratio", "1.01", "1.01 is not a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", "1e9999", "1e9999 is not a number from 0 to 1"),
        ("message.timestamp.type", "createtime", "is not one of CreateTime, LogAppendTime"),
        ("segment.bytes", "1048575", "1048575 is not a whole number from 1048576"),
        ("segment.bytes", "2147483648", "2147483648 is not a whole number from 1048576"),
        ("internal.segment.bytes", "60", "60 is not a whole number from"),
        ("segment.ms", "0", "0 is not a whole number from 1"),
        ("max.compaction.lag.ms", "0", "0 is not a whole number from 1"),
        ("file.delete.delay.ms", "-1", "-1 is not a whole number from 0"),
        ("message.timestamp.after.max.ms", "-1", "-1 is not a whole number from 0"),
        ("retention.age.from.roll", "yes", "'yes' is not true or false"),
        ("nonsense", "1", "no such setting"),
        ("retention.m", "1", "no such setting; did you mean retention.ms?"),
        ("internal.nonsense", "1", "no such setting"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        with_settings(LogConfig(), {name: text})
    assert reason in str(refused.value)
    assert refused.value.name in (name, name.removeprefix("internal."))


@pytest.mark.parametrize(("lag_min", "is_allowed"), [("5", True), ("6", False)])
def test_the_least_compaction_lag_is_not_above_the_largest(lag_min: str, is_allowed: bool) -> None:
    texts = {"min.compaction.lag.ms": lag_min, "max.compaction.lag.ms": "5"}
    if is_allowed:
        assert with_settings(LogConfig(), texts).compaction_lag_ms_min == 5
    else:
        with pytest.raises(InvalidSetting, match=r"6 ms is above max\.compaction\.lag\.ms, 5 ms"):
            with_settings(LogConfig(), texts)


@pytest.mark.parametrize(
    "fields",
    [
        {"segment_bytes_max": 60},
        {"retention_ms": True},
        {"retention_ms": 5.0},
        {"retention_ms": None},
        {"dirty_ratio_min": float("nan")},
        {"cleanup_policy": "compact"},
        {"timestamp_type": COMPACT},
        {"retention_age_from_roll": 1},
    ],
)
def test_a_program_cannot_pass_what_the_engine_cannot_do(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting):
        LogConfig(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "roll_ms"),
    [
        (LogConfig(segment_ms=10, compaction_lag_ms_max=5), 10),
        (LogConfig(segment_ms=10, compaction_lag_ms_max=5, cleanup_policy=COMPACT), 5),
        (LogConfig(segment_ms=10, compaction_lag_ms_max=15, cleanup_policy=COMPACT), 10),
    ],
)
def test_a_compacted_log_rolls_in_time_for_its_largest_lag(config: LogConfig, roll_ms: int) -> None:
    assert config.roll_ms == roll_ms


@pytest.mark.parametrize(
    ("texts", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"hours": "2"}, 7_200_000),
        ({"minutes": "1", "hours": "2"}, 60_000),
        ({"ms": "7", "minutes": "1", "hours": "2"}, 7),
        ({"ms": "-5", "minutes": "1"}, -1),
        ({"minutes": "-1"}, -1),
        ({"hours": "-1"}, -1),
    ],
)
def test_milliseconds_go_before_minutes_and_minutes_before_hours(
    texts: dict[str, str], retention_ms: int
) -> None:
    named = {f"log.retention.{unit}": text for unit, text in texts.items()}
    config = with_settings(RetentionConfig(), named | {"log.retention.bytes": "99"})
    assert config.topic_defaults()["retention.ms"][1] == retention_ms
    assert config.topic_defaults()["retention.bytes"] == ("log.retention.bytes", 99)


@pytest.mark.parametrize(
    "name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
)
def test_no_retention_at_all_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{name}: 0 is neither -1"):
        with_settings(RetentionConfig(), {name: "0"})


@pytest.mark.parametrize(
    ("texts", "refused"),
    [
        ({"log.cleaner.dedupe.buffer.size": "1048577"}, None),
        (
            {"log.cleaner.dedupe.buffer.size": "1048576"},
            "1048576 bytes for 1 threads are not more than 1048576 bytes for each",
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "2097152", "log.cleaner.threads": "2"},
            "2097152 bytes for 2 threads are not more",
        ),
        ({"log.cleaner.threads": "0"}, "0 is not a whole number from 1"),
        ({"log.cleaner.enable": "TRUE"}, None),
        ({"log.cleaner.enable": "yes"}, "'yes' is not true or false"),
        ({"log.cleaner.io.buffer.size": "0"}, None),
        # Kafka takes these, and then stands still or fails.
        ({"log.cleaner.io.max.bytes.per.second": "0"}, "0 is not a number above 0"),
        ({"log.cleaner.io.buffer.load.factor": "1.5"}, "1.5 is not a number above 0 to 1"),
        ({"log.cleaner.io.buffer.load.factor": "0"}, "0 is not a number above 0 to 1"),
        ({"log.cleaner.io.buffer.load.factor": "0.000001"}, None),
        ({"log.cleaner.io.buffer.load.factor": "0.0000001"}, "is too small for one"),
    ],
)
def test_the_cleaners_settings_have_their_bounds(
    texts: dict[str, str], refused: str | None
) -> None:
    if refused is None:
        with_settings(CleanerConfig(), texts)
    else:
        with pytest.raises(InvalidSetting) as error:
            with_settings(CleanerConfig(), texts)
        assert refused in str(error.value)


def test_a_throttle_that_is_not_set_does_not_throttle() -> None:
    assert CleanerConfig().io_bytes_per_second_max == sys.float_info.max


def test_every_setting_says_why_it_is() -> None:
    for config in (LogConfig, CleanerConfig, RetentionConfig, BackgroundConfig):
        for setting in settings_of(config).values():
            assert setting.reason.endswith(".")
            assert "." in setting.name

"""Which settings topics and the server have, and where each is from."""

from __future__ import annotations

import itertools

import attrs
import pytest
from offsetd_storage.configuration.log_config import COMPACT, DELETE, LogConfig
from offsetd_storage.configuration.server_config import (
    BackgroundConfig,
    CleanerConfig,
    DiskConfig,
    RetentionConfig,
    RollConfig,
)
from offsetd_storage.configuration.topic_configs import (
    SERVER_SETTINGS,
    TOPIC_SETTINGS,
    Floor,
    SettingEntry,
    Source,
    TopicConfigs,
    TopicRule,
)
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.timestamp_type import TimestampType

TOPIC = "offsets"
RESTART_ENTRY = SettingEntry(
    name="listen.address",
    value="a:1",
    default="b:1",
    source=Source.STATIC_SERVER,
    unit="",
    allowed="HOST:PORT",
    reason="Where.",
    is_dynamic=False,
)
CONFIGS = TopicConfigs(
    brought={TOPIC: {"cleanup.policy": "compact", "segment.bytes": "104857600"}},
    floors=(
        Floor(
            topic=TOPIC,
            name="min.compaction.lag.ms",
            least=60,
            setting="request.id.window.ms",
            reason="Ids are remembered.",
        ),
    ),
    rules=(
        TopicRule(
            topic=TOPIC,
            name="cleanup.policy",
            is_kept=lambda log: not log.is_deleted,
            reason="Live values would be lost.",
        ),
    ),
    restart_entries=(RESTART_ENTRY,),
)


def entry(configs: TopicConfigs, topic: str | None, name: str) -> SettingEntry:
    [found] = [each for each in configs.describe(topic) if each.name == name]
    return found


def test_without_a_setting_all_are_the_defaults() -> None:
    assert TopicConfigs().log_config("t") == LogConfig()
    configs = TopicConfigs()
    assert (configs.cleaner, configs.retention, configs.roll, configs.background, configs.disk) == (
        CleanerConfig(),
        RetentionConfig(),
        RollConfig(),
        BackgroundConfig(),
        DiskConfig(),
    )
    configs.check()


def test_a_topic_brings_settings_that_others_do_not_have() -> None:
    assert CONFIGS.log_config(TOPIC) == LogConfig(
        cleanup_policy=COMPACT, segment_bytes_max=104_857_600, compaction_lag_ms_min=60
    )
    assert CONFIGS.log_config("other") == LogConfig()


def test_the_brokers_settings_are_the_defaults_of_topics() -> None:
    texts = {
        "log.segment.bytes": "2000000",
        "log.index.size.max.bytes": "100",
        "log.index.interval.bytes": "11",
        "message.max.bytes": "12",
        "log.cleanup.policy": "compact",
        "log.cleaner.min.cleanable.ratio": "0.25",
        "log.cleaner.delete.retention.ms": "1",
        "log.cleaner.min.compaction.lag.ms": "2",
        "log.cleaner.max.compaction.lag.ms": "3",
        "log.segment.delete.delay.ms": "4",
        "log.message.timestamp.type": "LogAppendTime",
        "log.message.timestamp.before.max.ms": "5",
        "log.message.timestamp.after.max.ms": "6",
    }
    assert TopicConfigs(static_server=texts).log_config("t") == LogConfig(
        segment_bytes_max=2_000_000,
        segment_index_bytes_max=100,
        index_interval_bytes=11,
        message_bytes_max=12,
        cleanup_policy=COMPACT,
        dirty_ratio_min=0.25,
        delete_retention_ms=1,
        compaction_lag_ms_min=2,
        compaction_lag_ms_max=3,
        file_delete_delay_ms=4,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        timestamp_before_ms_max=5,
        timestamp_after_ms_max=6,
    )


LAYERS: dict[Source, dict[str, object]] = {
    Source.DYNAMIC_TOPIC: {"dynamic_topics": {TOPIC: {"delete.retention.ms": "1"}}},
    Source.STATIC_TOPIC: {"static_topics": {TOPIC: {"delete.retention.ms": "2"}}},
    Source.TOPIC: {"brought": {TOPIC: {"delete.retention.ms": "3"}}},
    Source.DYNAMIC_SERVER: {"dynamic_server": {"log.cleaner.delete.retention.ms": "4"}},
    Source.STATIC_SERVER: {"static_server": {"log.cleaner.delete.retention.ms": "5"}},
}


@pytest.mark.parametrize(
    "layers", [each for n in range(6) for each in itertools.combinations(LAYERS, n)]
)
def test_the_nearest_place_counts(layers: tuple[Source, ...]) -> None:
    fields: dict[str, object] = {}
    for layer in layers:
        fields |= LAYERS[layer]
    configs = TopicConfigs(**fields)  # type: ignore[arg-type]
    nearest = layers[0] if layers else Source.DEFAULT
    expected = list(LAYERS).index(nearest) + 1 if layers else 86_400_000
    assert configs.log_config(TOPIC).delete_retention_ms == expected
    found = entry(configs, TOPIC, "delete.retention.ms")
    assert (found.value, found.source) == (str(expected), nearest)
    assert found.default == ("3" if Source.TOPIC in layers else "86400000")
    servers = [each for each in layers if each in (Source.DYNAMIC_SERVER, Source.STATIC_SERVER)]
    expected = list(LAYERS).index(servers[0]) + 1 if servers else 86_400_000
    assert configs.log_config("other").delete_retention_ms == expected


def test_a_policy_for_the_whole_server_is_none_for_a_topic_that_brings_its_own() -> None:
    configs = CONFIGS.with_changes(None, {"log.cleanup.policy": "delete"})
    assert configs.log_config(TOPIC).cleanup_policy == COMPACT
    assert configs.log_config("other").cleanup_policy == DELETE
    configs = CONFIGS.with_changes(None, {"log.cleanup.policy": "compact,delete"})
    assert configs.log_config("other").cleanup_policy == COMPACT | DELETE


@pytest.mark.parametrize(
    ("static", "dynamic", "name", "expected", "source"),
    [
        ({}, {}, "retention.ms", 604_800_000, Source.DEFAULT),
        ({"log.retention.hours": "2"}, {}, "retention.ms", 7_200_000, Source.STATIC_SERVER),
        (
            {"log.retention.ms": "7"},
            {"log.retention.hours": "2"},
            "retention.ms",
            7,
            Source.STATIC_SERVER,
        ),
        (
            {"log.retention.hours": "2"},
            {"log.retention.ms": "7"},
            "retention.ms",
            7,
            Source.DYNAMIC_SERVER,
        ),
        (
            {"log.retention.minutes": "1"},
            {"log.retention.hours": "2"},
            "retention.ms",
            60_000,
            Source.STATIC_SERVER,
        ),
        ({"log.retention.bytes": "9"}, {}, "retention.bytes", 9, Source.STATIC_SERVER),
        ({}, {}, "segment.ms", 604_800_000, Source.DEFAULT),
        ({"log.roll.hours": "2"}, {}, "segment.ms", 7_200_000, Source.STATIC_SERVER),
        ({"log.roll.hours": "2"}, {"log.roll.ms": "7"}, "segment.ms", 7, Source.DYNAMIC_SERVER),
        ({"log.roll.ms": "7"}, {"log.roll.hours": "2"}, "segment.ms", 7, Source.STATIC_SERVER),
        ({}, {}, "segment.jitter.ms", 0, Source.DEFAULT),
        ({"log.roll.jitter.hours": "1"}, {}, "segment.jitter.ms", 3_600_000, Source.STATIC_SERVER),
        (
            {"log.roll.jitter.hours": "1"},
            {"log.roll.jitter.ms": "0"},
            "segment.jitter.ms",
            0,
            Source.DYNAMIC_SERVER,
        ),
    ],
)
def test_finer_units_go_before_coarser_ones(
    static: dict[str, str], dynamic: dict[str, str], name: str, expected: int, source: Source
) -> None:
    configs = TopicConfigs(static_server=static).with_changes(None, dynamic)
    found = entry(configs, "t", name)
    assert (found.value, found.source) == (str(expected), source)
    fields = {"retention.ms": "retention_ms", "retention.bytes": "retention_bytes"}
    fields |= {"segment.ms": "segment_ms", "segment.jitter.ms": "segment_jitter_ms"}
    assert getattr(configs.log_config("t"), fields[name]) == expected


def test_a_value_below_a_floor_counts_as_the_floor_and_says_why() -> None:
    found = entry(CONFIGS, TOPIC, "min.compaction.lag.ms")
    assert (found.value, found.default, found.source) == ("60", "60", Source.FLOOR)
    assert found.reason.endswith("Ids are remembered.")
    configs = CONFIGS.with_changes(TOPIC, {"min.compaction.lag.ms": "61"})
    found = entry(configs, TOPIC, "min.compaction.lag.ms")
    assert (found.value, found.default, found.source) == ("61", "60", Source.DYNAMIC_TOPIC)
    assert entry(CONFIGS, "other", "min.compaction.lag.ms").value == "0"


def test_every_setting_is_described_and_those_of_the_server_that_need_a_restart_too() -> None:
    assert [each.name for each in CONFIGS.describe(TOPIC)] == sorted(TOPIC_SETTINGS)
    assert all(each.is_dynamic for each in CONFIGS.describe(TOPIC))
    server = CONFIGS.describe(None)
    assert [each.name for each in server] == sorted([*SERVER_SETTINGS, "listen.address"])
    assert [each for each in server if not each.is_dynamic] == [RESTART_ENTRY]
    for each in (*server, *CONFIGS.describe(TOPIC)):
        assert each.reason.endswith(".")
        assert each.allowed


@pytest.mark.parametrize(
    ("topic", "name", "text", "field"),
    [
        (None, "log.cleaner.threads", "2", lambda configs: configs.cleaner.threads),
        (None, "background.threads", "2", lambda configs: configs.background.threads),
        (None, "log.retention.check.interval.ms", "2", lambda c: c.retention.check_interval_ms),
        (None, "disk.reserve.bytes", "2", lambda configs: configs.disk.reserve_bytes),
        (None, "log.index.interval.bytes", "2", lambda c: c.log_config("t").index_interval_bytes),
        (TOPIC, "index.interval.bytes", "2", lambda c: c.log_config(TOPIC).index_interval_bytes),
    ],
)
def test_what_is_set_counts_until_it_is_removed(
    topic: str | None, name: str, text: str, field: object
) -> None:
    configs = CONFIGS.with_changes(topic, {name: f" {text} "})
    assert field(configs) == 2  # type: ignore[operator]
    assert configs.texts(topic) == {name: "2"}
    found = entry(configs, topic, name)
    wanted = Source.DYNAMIC_SERVER if topic is None else Source.DYNAMIC_TOPIC
    assert (found.value, found.source) == ("2", wanted)
    assert found.default == entry(CONFIGS, topic, name).value
    assert configs.with_changes(topic, {}, [name]) == CONFIGS
    assert CONFIGS.with_changes(topic, {}, [name]) == CONFIGS


def test_an_operator_passes_kafkas_bounds_by_a_prefix_and_no_others() -> None:
    configs = CONFIGS.with_changes(TOPIC, {"internal.segment.bytes": "65_536"})
    assert configs.texts(TOPIC) == {"segment.bytes": "65536"}
    assert configs.log_config(TOPIC).segment_bytes_max == 65_536
    assert configs.with_changes(TOPIC, {}, ["internal.segment.bytes"]) == CONFIGS
    server = CONFIGS.with_changes(None, {"internal.log.segment.bytes": "65536"})
    assert server.log_config("other").segment_bytes_max == 65_536
    assert server.log_config(TOPIC).segment_bytes_max == 104_857_600


@pytest.mark.parametrize(
    ("topic", "changes", "removals", "message"),
    [
        (
            TOPIC,
            {"segment.bytes": "65536"},
            [],
            "segment.bytes: 65536 is not a whole number from 1",
        ),
        (TOPIC, {"internal.segment.bytes": "6"}, [], "segment.bytes: 6 is not a whole number from"),
        (TOPIC, {"segment.byte": "1"}, [], "segment.byte: no such setting; did you mean segment.b"),
        (TOPIC, {}, ["segment.byte"], "segment.byte: no such setting; did you mean segment.bytes?"),
        (TOPIC, {"log.segment.bytes": "1"}, [], "a setting of the server, not of a topic"),
        (
            None,
            {"segment.bytes": "1"},
            [],
            "a setting of a topic, not of the server: say --topic __consumer_offsets",
        ),
        (None, {"segment.byte": "1"}, [], "did you mean segment.bytes with --topic?"),
        (TOPIC, {"log.cleaner.thread": "1"}, [], "did you mean log.cleaner.threads of the server?"),
        (None, {"log.segment.bytes": "1"}, [], "log.segment.bytes: 1 is not a whole number from 1"),
        (None, {"log.cleaner.thread": "1"}, [], "did you mean log.cleaner.threads?"),
        (None, {"listen.address": "a:1"}, [], "listen.address: needs a restart"),
        (None, {}, ["listen.address"], "listen.address: needs a restart"),
        (None, {"background.threads": "1"}, ["background.threads"], "both set and removed"),
        (TOPIC, {"max.compaction.lag.ms": "59"}, [], "60 ms is above max.compaction.lag.ms, 59 ms"),
        (None, {"log.cleaner.max.compaction.lag.ms": "59"}, [], "60 ms is above"),
        (
            TOPIC,
            {"cleanup.policy": "compact,delete"},
            [],
            "compact,delete is not for offsets: Live",
        ),
        (None, {"log.retention.ms": "0"}, [], "log.retention.ms: 0 is neither -1"),
        (None, {"log.cleaner.threads": "128"}, [], "128 threads are not more than"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    topic: str | None, changes: dict[str, str], removals: list[str], message: str
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        CONFIGS.with_changes(topic, changes, removals)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_values_that_fit_only_together_are_taken_together() -> None:
    lags = {"min.compaction.lag.ms": "200", "max.compaction.lag.ms": "300"}
    configs = CONFIGS.with_changes(TOPIC, lags)
    lags = {"max.compaction.lag.ms": "150", "min.compaction.lag.ms": "100"}
    log = configs.with_changes(TOPIC, lags).log_config(TOPIC)
    assert (log.compaction_lag_ms_min, log.compaction_lag_ms_max) == (100, 150)


def test_what_was_stored_is_taken_again_without_kafkas_bounds() -> None:
    configs = CONFIGS.with_changes(TOPIC, {"internal.segment.bytes": "65536"})
    configs = configs.with_changes("other", {"retention.ms": "5"})
    configs = configs.with_changes(None, {"log.cleaner.threads": "2"})
    stored = {topic: configs.texts(topic) for topic in (TOPIC, None, "other")}
    assert CONFIGS.with_stored(stored) == (configs, {})
    assert configs.with_stored({}) == (CONFIGS, {})


def test_what_was_stored_and_fits_no_more_is_left_out() -> None:
    stored: dict[str | None, dict[str, str]] = {
        TOPIC: {
            "segment.bytes": "6",
            "gone": "1",
            "max.compaction.lag.ms": "59",
            "retention.ms": "5",
        },
        None: {"log.cleaner.threads": "2"},
    }
    configs, problems = CONFIGS.with_stored(stored)
    assert set(problems) == {
        (TOPIC, "segment.bytes"),
        (TOPIC, "gone"),
        (TOPIC, "max.compaction.lag.ms"),
    }
    assert configs.texts(TOPIC) == {"retention.ms": "5"}
    assert configs.cleaner.threads == 2


def test_configs_are_values() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        CONFIGS.floors = ()  # type: ignore[misc]
    assert CONFIGS.with_changes(TOPIC, {"retention.ms": "604800000"}) != CONFIGS

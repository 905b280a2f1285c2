"""The settings: names, bounds, what belongs to what, and what was set where."""

from __future__ import annotations

import re
import subprocess
import sys

import attrs
import pytest
from offsetd_coordinator.configuration.dynamic_settings import DYNAMIC_CLASSES, DYNAMIC_SETTINGS
from offsetd_coordinator.configuration.server_settings import (
    ALL_SETTINGS,
    OWN_FIELDS,
    Settings,
    default_entries,
)
from offsetd_coordinator.configuration.settings_sources import environment_name
from offsetd_storage.configuration.log_config import (
    COMPACT,
    OFFSETS_TOPIC,
    OFFSETS_TOPIC_LOG_CONFIG,
    LogConfig,
)
from offsetd_storage.configuration.server_config import (
    BackgroundConfig,
    CleanerConfig,
    DiskConfig,
    RetentionConfig,
    RollConfig,
)
from offsetd_storage.configuration.settings import settings_of
from offsetd_storage.configuration.topic_configs import (
    SERVER_SETTINGS,
    TOPIC_SETTINGS,
    SettingEntry,
    Source,
)
from shards import answer, commit, entry, new_shard


def described(settings: Settings, topic: str | None, name: str) -> SettingEntry:
    [found] = [each for each in settings.configs.describe(topic) if each.name == name]
    return found


def test_every_setting_has_a_reason_and_an_allowed_default() -> None:
    for name, setting in ALL_SETTINGS.items():
        assert setting.reason.endswith("."), name
        setting.check(setting.default)
        assert setting.operator_kind.allows(setting.default), name


def test_no_setting_is_declared_twice() -> None:
    classes = (
        Settings,
        LogConfig,
        CleanerConfig,
        RetentionConfig,
        RollConfig,
        BackgroundConfig,
        DiskConfig,
        *DYNAMIC_CLASSES,
    )
    declared = [setting for each in classes for setting in settings_of(each).values()]
    names = [setting.name for setting in declared]
    names += [setting.server_name for setting in declared if setting.server_name]
    assert sorted(names) == sorted(ALL_SETTINGS)
    assert len({environment_name(name) for name in names}) == len(names)


def test_a_settings_attribute_is_its_name_and_no_name_is_a_table_of_another() -> None:
    for name, field in OWN_FIELDS.items():
        assert field == name.replace(".", "_")
    assert not [(a, b) for a in ALL_SETTINGS for b in ALL_SETTINGS if b.startswith(a + ".")]


def test_the_defaults_are_kafkas_where_kafka_has_the_setting() -> None:
    settings = Settings()
    assert settings.offsets_topic_segment_bytes == 104_857_600
    assert settings.offset_metadata_max_bytes == 4096
    assert settings.listen_address == "127.0.0.1:7171"
    assert settings.data_dir == "./offsetd-data"
    assert settings.configs.log_config("") == LogConfig()
    assert settings.log == attrs.evolve(OFFSETS_TOPIC_LOG_CONFIG, compaction_lag_ms_min=3_600_000)
    assert (settings.cleaner, settings.retention) == (CleanerConfig(), RetentionConfig())
    assert (settings.background, settings.disk) == (BackgroundConfig(), DiskConfig())


@pytest.mark.parametrize(
    ("said", "topic", "field", "expected"),
    [
        ({"segment.ms": "5"}, OFFSETS_TOPIC, "segment_ms", 5),
        ({"segment.ms": "5"}, "", "segment_ms", 604_800_000),
        ({"log.roll.ms": "5"}, "", "segment_ms", 5),
        ({"log.roll.ms": "5"}, OFFSETS_TOPIC, "segment_ms", 5),
        ({"log.roll.ms": "5", "segment.ms": "6"}, OFFSETS_TOPIC, "segment_ms", 6),
        ({"log.segment.bytes": "5000000"}, "", "segment_bytes_max", 5_000_000),
        ({"log.segment.bytes": "5000000"}, OFFSETS_TOPIC, "segment_bytes_max", 104_857_600),
        ({"segment.bytes": "5000000"}, OFFSETS_TOPIC, "segment_bytes_max", 5_000_000),
        ({"log.cleanup.policy": "delete"}, OFFSETS_TOPIC, "cleanup_policy", COMPACT),
        ({"log.cleanup.policy": "delete"}, "__offsetd_config", "cleanup_policy", COMPACT),
        ({"log.retention.hours": "1"}, "", "retention_ms", 3_600_000),
        ({"log.retention.hours": "1"}, "__offsetd_audit", "retention_ms", 90 * 86_400_000),
        ({"min.compaction.lag.ms": "5"}, OFFSETS_TOPIC, "compaction_lag_ms_min", 3_600_000),
        ({"min.compaction.lag.ms": "7000000"}, OFFSETS_TOPIC, "compaction_lag_ms_min", 7_000_000),
    ],
)
def test_a_setting_goes_where_kafka_has_it(
    said: dict[str, str], topic: str, field: str, expected: object
) -> None:
    log = Settings(said=said).configs.log_config(topic)
    assert getattr(log, field) == expected


def test_the_offsets_topic_has_segments_of_its_own_size() -> None:
    settings = Settings(offsets_topic_segment_bytes=65_536)
    assert settings.log.segment_bytes_max == 65_536
    assert described(settings, OFFSETS_TOPIC, "segment.bytes").source is Source.TOPIC
    assert Settings(said={"segment.bytes": "2000000"}).log.segment_bytes_max == 2_000_000


def test_records_stay_as_long_as_their_request_ids_are_remembered() -> None:
    settings = Settings(request_id_window_ms=90_000, history_ms=90_001)
    assert settings.log.compaction_lag_ms_min == 90_001
    found = described(settings, OFFSETS_TOPIC, "min.compaction.lag.ms")
    assert (found.value, found.source) == ("90001", Source.FLOOR)
    assert "request.id.window.ms" in found.reason
    assert Settings(request_id_window_ms=0, history_ms=0).log.compaction_lag_ms_min == 1


def test_records_stay_as_long_as_there_is_to_be_history() -> None:
    settings = Settings(request_id_window_ms=90_000, history_ms=90_002)
    assert settings.log.compaction_lag_ms_min == 90_002
    assert "history.ms" in described(settings, OFFSETS_TOPIC, "min.compaction.lag.ms").reason
    longer = Settings(history_ms=5, said={"min.compaction.lag.ms": "100000"})
    assert longer.log.compaction_lag_ms_min == 100_000


def test_what_needs_a_restart_is_described_with_its_source() -> None:
    settings = Settings(listen_address="a:1", said={"node.id": "0"})
    found = described(settings, None, "listen.address")
    assert (found.value, found.default) == ("a:1", "127.0.0.1:7171")
    assert (found.source, found.is_dynamic) == (Source.STATIC_SERVER, False)
    assert described(settings, None, "node.id").source is Source.STATIC_SERVER
    assert described(settings, None, "data.dir").source is Source.DEFAULT
    assert described(settings, None, "log.cleaner.threads").is_dynamic


def test_every_setting_is_listed_once() -> None:
    names = [each.name for each in default_entries()]
    assert sorted(names) == sorted(ALL_SETTINGS)
    assert names == sorted({*OWN_FIELDS, *SERVER_SETTINGS, *DYNAMIC_SETTINGS}) + sorted(
        TOPIC_SETTINGS
    )


def test_to_know_the_settings_needs_neither_the_store_nor_what_it_computes_with() -> None:
    program = (
        "import sys\n"
        "import offsetd_coordinator.commands.serve\n"
        "from offsetd_coordinator.configuration.server_settings import default_entries\n"
        "assert default_entries()\n"
        "print([name for name in sys.modules if name.partition('.')[0] in"
        " ('numpy', 'numba', 'grpc', 'google', 'uvloop')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout == b"[]\n"


def test_settings_are_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Settings().node_id = "1"  # type: ignore[misc]


def test_a_remembered_request_id_takes_the_bytes_that_are_told() -> None:
    reason = ALL_SETTINGS["request.ids.per.partition.max"].reason
    told = re.findall(r"([0-9]+) bytes each", reason)
    ids_max = 10_000  # No multiple of the sizes the arrays grow by.
    shard = new_shard(request_ids_per_partition_max=ids_max)
    for number in range(ids_max + 1):
        answer(shard, commit("g", entry("t", 0, 1), request_id=b"%d" % number))
    table = shard._state.offsets._table
    assert len(table.requests) == ids_max
    assert [str((table.requests.nbytes + table.request_slots.nbytes) // ids_max)] == told

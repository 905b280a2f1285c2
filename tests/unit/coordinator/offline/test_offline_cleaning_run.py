"""The settings of `log clean`."""

from __future__ import annotations

import attrs
import pytest
from offsetd_coordinator.configuration.settings_sources import SettingsError
from offsetd_coordinator.offline.offline_cleaning_run import read_cleaning_settings
from offsetd_storage.configuration.log_config import COMPACT


def test_a_setting_goes_where_kafka_has_it() -> None:
    environment = {"OFFSETD_OFFSETS_TOPIC_NUM_PARTITIONS": "7", "OFFSETD_SEGMENT_MS": "5000"}
    settings = read_cleaning_settings(
        [
            "segment.ms=6000",
            "internal.offsets.topic.segment.bytes=2048",
            "request.id.window.ms=0",
            "history.ms=0",
            "log.cleaner.io.max.bytes.per.second=1e6",
            "log.cleaner.delete.retention.ms=1000",
            "log.cleaner.min.compaction.lag.ms=10",
            "min.compaction.lag.ms=20",
            "internal.file.delete.delay.ms=30",
        ],
        environment,
    )
    log = settings.store.log
    assert settings.store.partitions == 7
    assert (log.segment_ms, log.segment_bytes_max, log.cleanup_policy) == (6000, 2048, COMPACT)
    assert settings.cleaner.io_bytes_per_second_max == 1e6
    # The topic's own goes before the one for all topics.
    assert (log.delete_retention_ms, log.compaction_lag_ms_min) == (1000, 20)
    assert log.file_delete_delay_ms == 30


def test_without_a_setting_all_are_the_servers() -> None:
    settings = read_cleaning_settings([], {})
    again = read_cleaning_settings(["delete.retention.ms=86400000"], {})
    assert (settings.store, settings.cleaner) == (again.store, again.cleaner)
    assert attrs.evolve(settings.store.log, delete_retention_ms=1) != settings.store.log


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("delete.retention.mss=1", r"no such setting; did you mean delete.retention.ms\?"),
        ("delete.retention.ms", "must be NAME=VALUE"),
        ("log.segment.bytes=1", "1 is not a whole number from 1048576"),
        ("data.dir=d", "name the folder with --data-dir"),
        ("segment.bytes=100", "100 is not a whole number from 1048576"),
    ],
)
def test_a_wrong_setting_is_refused(assignment: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_cleaning_settings([assignment], {})

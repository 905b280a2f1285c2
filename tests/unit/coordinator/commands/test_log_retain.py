"""`offsetd log retain` and `recreate`: what goes, why, what is blocked, and what a dry run says."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest
from log_commands import Outcome, offsetd_log
from offsetd_clients.cli.printing.terminal import OutputFormat
from offsetd_coordinator.configuration.config_record import (
    ConfigKey,
    encode_config_key,
    encode_config_value,
)
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_TOPIC, CONFIG_TOPIC
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig, TopicSpec
from offsetd_storage.topic_partition import TopicPartition

DAY_MS = 86_400_000
NOW_MS = SystemClock().now_ms()
AUDIT, SETTINGS = TopicPartition(AUDIT_TOPIC, 0), TopicPartition(CONFIG_TOPIC, 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
SMALL = LogConfig(segment_bytes_max=1000, timestamp_after_ms_max=2**62)
CONFIG = LogStoreConfig(
    partitions=1,
    journal_file_bytes=2 << 20,
    log=attrs.evolve(SMALL, cleanup_policy=COMPACT),
    other_topics=(
        TopicSpec(topic=AUDIT_TOPIC, partitions=1, log=SMALL),
        TopicSpec(
            topic=CONFIG_TOPIC, partitions=1, log=attrs.evolve(SMALL, cleanup_policy=COMPACT)
        ),
    ),
)


def opened(folder: Path) -> LogStore:
    return LogStore.open(OsFiles(), folder, CONFIG, clock=SystemClock(), random=random.Random(7))


def append(store: LogStore, place: TopicPartition, *, timestamp_ms: int = NOW_MS) -> None:
    record = Record(key=b"k", value=b"v" * 400, offset=0, timestamp_ms=timestamp_ms)
    store.produce(place, encode_batch([record], base_offset=0))
    store.flush()


def set_dynamically(store: LogStore, name: str, value: str, *, topic: str = AUDIT_TOPIC) -> None:
    record = Record(
        key=encode_config_key(ConfigKey(topic, name)),
        value=encode_config_value(value),
        offset=0,
        timestamp_ms=NOW_MS,
    )
    store.produce(SETTINGS, encode_batch([record], base_offset=0))
    store.flush()


def made(folder: Path, *, ages_days: tuple[int, ...] = (100, 100, 100, 100, 1, 1, 0)) -> Path:
    """A folder in which the audit log has two records of each age a segment."""
    store = opened(folder)
    for days in ages_days:
        append(store, AUDIT, timestamp_ms=NOW_MS - days * DAY_MS)
        append(store, OFFSETS)
    store.close()
    return folder


def age_files(folder: Path, *, days: int) -> None:
    for path in (folder / AUDIT.folder_name).glob("*.log"):
        os.utime(path, times=((NOW_MS - days * DAY_MS) / 1000,) * 2)


def states(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
        for path in (folder, *folder.rglob("*"))
    }


def retain(folder: Path, *arguments: str, topic: str = AUDIT_TOPIC) -> tuple[Outcome, list[Any]]:
    outcome = offsetd_log(
        *("retain", "--data-dir", str(folder), "--topic", topic, *arguments),
        output=OutputFormat.JSON,
    )
    return outcome, json.loads(outcome.out or "[]")


def segments(folder: Path, place: TopicPartition = AUDIT) -> list[str]:
    return sorted(path.stem for path in (folder / place.folder_name).glob("*.log"))


def test_what_is_due_goes_and_is_told(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    before = segments(folder)
    assert len(before) == 4
    outcome, (row,) = retain(folder)
    assert outcome.code == 0, outcome.err
    assert row["why"] == "time: 2"
    assert (row["segments_before"], row["segments_after"]) == (4, 2)
    assert (row["start_before"], row["start_after"]) == (0, 4)
    assert row["bytes_after"] < row["bytes_before"]
    freed = row["bytes_before"] - row["bytes_after"]
    assert f"freed {freed} of {row['bytes_before']} bytes" in outcome.err
    assert segments(folder) == before[2:]
    assert len(segments(folder, OFFSETS)) == 4
    store = opened(folder)
    assert store.logs[AUDIT].log_start_offset == 4
    assert not store.report.warnings
    store.close()
    again, rows = retain(folder)
    assert (again.code, rows) == (0, [])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ((), "time: 2"),
        (("retention.ms=-1",), None),
        (("retention.ms=-1", "retention.bytes=0"), "size: 4"),
        (("retention.bytes=1500",), "size: 1, time: 1"),
        (("retention.ms=3600000",), "time: 3"),
    ],
)
def test_a_dry_run_changes_nothing_and_says_what_a_run_then_does(
    tmp_path: Path, settings: tuple[str, ...], why: str | None
) -> None:
    folder = made(tmp_path / "offsets")
    before = states(folder)
    arguments = [part for each in settings for part in ("--set", each)]
    dry, dry_rows = retain(folder, "--dry-run", *arguments)
    assert states(folder) == before
    assert dry.code == 0, dry.err
    assert [row["why"] for row in dry_rows] == ([] if why is None else [why])
    assert "it would free" in dry.err
    done, rows = retain(folder, *arguments)
    assert done.code == 0, done.err
    assert rows == dry_rows


def test_settings_that_were_changed_while_a_server_ran_count_and_set_goes_before_them(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "offsets")
    store = opened(folder)
    set_dynamically(store, "retention.ms", str(365 * DAY_MS))
    store.close()
    for arguments, why in (((), []), (("--set", "retention.ms=3600000"), ["time: 3"])):
        dry, dry_rows = retain(folder, "--dry-run", *arguments)
        outcome, rows = retain(folder, *arguments)
        assert (dry.code, outcome.code) == (0, 0)
        assert [row["why"] for row in rows] == [row["why"] for row in dry_rows] == why


def test_a_compacted_topic_only_loses_what_lies_below_its_start(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    outcome, rows = retain(folder, topic="__consumer_offsets")
    assert (outcome.code, rows) == (0, [])
    store = opened(folder)
    store.advance_recovery_points()
    store.raise_log_start_offset(OFFSETS, 4)
    store.close()
    outcome, (row,) = retain(folder, topic="__consumer_offsets")
    assert (outcome.code, row["why"]) == (0, "log start offset: 2")
    assert len(segments(folder, OFFSETS)) == 2


def test_any_compacted_topic_is_cleaned_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    store = opened(folder)
    for days in range(20):
        set_dynamically(store, "retention.ms", str((100 + days) * DAY_MS))
    store.roll(SETTINGS)
    store.close()
    arguments = ("clean", "--data-dir", str(folder), "--topic")
    refused = offsetd_log(*arguments, AUDIT_TOPIC)
    assert refused.code == 1
    assert "not compact" in refused.err
    arguments = (*arguments, CONFIG_TOPIC)
    outcome = offsetd_log(*arguments, "--set", "request.id.window.ms=0", output=OutputFormat.JSON)
    assert outcome.code == 0, outcome.err
    (row,) = json.loads(outcome.out)
    assert (row["records_before"], row["records_after"]) == (20, 1)


def test_deleting_offsets_by_age_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    outcome, _ = retain(folder, "--set", "cleanup.policy=delete", topic="__consumer_offsets")
    assert outcome.code == 2
    assert "cleanup.policy" in outcome.err
    assert len(segments(folder, OFFSETS)) == 4


def test_a_timestamp_in_the_future_that_blocks_is_told(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets", ages_days=(-400, 100, 100, 100, 0))
    age_files(folder, days=100)
    kafkas = ("--set", "retention.age.from.roll=false")
    outcome, (row,) = retain(folder, "--dry-run", *kafkas)
    assert outcome.code == 0, outcome.err
    assert (row["why"], row["start_after"]) == ("", 0)
    assert row["blocked_until"] is not None
    assert "retention is blocked by timestamp" in outcome.err
    outcome, (row,) = retain(folder)
    assert row["why"].startswith("time:")


def test_a_topic_that_nobody_knows_needs_a_policy(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    shutil.copytree(folder / AUDIT.folder_name, folder / "orders-0")
    outcome, _ = retain(folder, topic="orders")
    assert outcome.code == 2
    assert "cleanup.policy" in outcome.err
    outcome, rows = retain(folder, "--dry-run", "--set", "cleanup.policy=delete", topic="orders")
    assert outcome.code == 0
    assert [each["why"] for each in rows] == ["time: 2"]  # Kafka's seven days.


@pytest.mark.parametrize("whose", ["a broker's", "our"])
def test_another_topic_loses_what_is_due_and_gets_nothing_of_ours(
    tmp_path: Path, whose: str
) -> None:
    folder, apart = tmp_path / "offsets", made(tmp_path / "apart")
    if whose == "our":
        made(folder)
    else:
        folder.mkdir()
    shutil.copytree(apart / AUDIT.folder_name, folder / "orders-0")
    place = TopicPartition("orders", 0)
    before = {path.relative_to(folder) for path in folder.rglob("*")}
    arguments = ("--set", "cleanup.policy=delete")
    _, dry_rows = retain(folder, "--dry-run", *arguments, topic="orders")
    outcome, rows = retain(folder, *arguments, topic="orders")
    assert outcome.code == 0, outcome.err
    assert rows == dry_rows
    assert [each["why"] for each in rows] == ["time: 2"]
    assert segments(folder, place) == [f"{4:020d}", f"{6:020d}"]
    # All of it is old: a new segment is begun where it ends.
    outcome, (row,) = retain(folder, *arguments, "--set", "retention.ms=0", topic="orders")
    assert (row["start_after"], row["segments_after"]) == (7, 1)
    assert segments(folder, place) == [f"{7:020d}"]
    new = {path.relative_to(folder) for path in folder.rglob("*")} - before
    of_kafka = {".lock", "log-start-offset-checkpoint", "leader-epoch-checkpoint"}
    assert {each.name for each in new if each.parent.name != "orders-0"} <= of_kafka
    outcome, rows = retain(folder, *arguments, topic="orders")
    assert (outcome.code, rows) == (0, [])


def test_a_damaged_log_is_told_and_left_alone(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    path = folder / AUDIT.folder_name / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    for arguments in (("--dry-run",), ()):
        outcome, (row,) = retain(folder, *arguments)
        assert outcome.code == 1
        assert row["problem"]
    assert len(segments(folder)) == 4


def verify(folder: Path) -> tuple[Outcome, list[Any]]:
    outcome = offsetd_log(
        "verify", "--data-dir", str(folder), "--topic", AUDIT_TOPIC, output=OutputFormat.JSON
    )
    return outcome, json.loads(outcome.out or "[]")


def test_verify_names_the_batches_of_the_future_and_until_when_they_hold_back_retention(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "offsets", ages_days=(0, -400, 1, -3, 0))
    outcome, rows = verify(folder)
    assert outcome.code == 0
    assert "2 warnings" in outcome.err
    assert [(row["severity"], row["file"]) for row in rows] == [
        ("warning", f"{AUDIT.folder_name}/{1:020d}.log"),
        ("warning", f"{AUDIT.folder_name}/{3:020d}.log"),
    ]
    first, second = rows
    assert first["position"] == second["position"] == 0
    assert "offset 1: timestamp" in first["reason"]
    assert "offset 3: timestamp" in second["reason"]
    assert str(NOW_MS + 400 * DAY_MS) in first["reason"]
    assert "holds back retention by time until" in first["reason"]  # 90 days from now.
    store = opened(folder)
    set_dynamically(store, "retention.ms", "-1")
    store.close()
    outcome, rows = verify(folder)
    assert outcome.code == 0
    assert all("retention by time is off" in row["reason"] for row in rows)


def test_verify_names_the_first_of_very_many_batches_of_the_future(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    store = opened(folder)
    store.logs[AUDIT].config = attrs.evolve(SMALL, segment_bytes_max=1 << 20)
    for _ in range(25):
        append(store, AUDIT, timestamp_ms=NOW_MS + DAY_MS)
    store.close()
    _, rows = verify(folder)
    assert len(rows) == 10
    assert [row["reason"].endswith("15 more such batches follow") for row in rows] == [
        *[False] * 9,
        True,
    ]


def describe_cleaning(folder: Path, topic: str) -> dict[str, Any]:
    outcome = offsetd_log(
        *("describe", "--data-dir", str(folder), "--topic", topic, "--cleaning"),
        output=OutputFormat.JSON,
    )
    assert outcome.code == 0, outcome.err
    (row,) = json.loads(outcome.out)
    return dict(row)


def test_describe_says_what_cleaning_and_retention_have_to_do(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    row = describe_cleaning(folder, AUDIT_TOPIC)
    assert (row["start_offset"], row["end_offset"], row["last_stable"]) == (0, 7, 7)
    assert row["dirty_ratio"] is None  # It is not compacted.
    assert row["due_bytes"] > 0
    store = opened(folder)
    set_dynamically(store, "min.compaction.lag.ms", "0", topic="__consumer_offsets")
    store.close()
    row = describe_cleaning(folder, "__consumer_offsets")
    assert (row["first_dirty"], row["due_bytes"], row["dirty_ratio"]) == (0, 0, 0)  # All is young.
    path = folder / OFFSETS.folder_name / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert "damaged" in describe_cleaning(folder, "__consumer_offsets")["problem"]


def recreate(folder: Path, *arguments: str) -> tuple[Outcome, list[Any]]:
    outcome = offsetd_log(
        "recreate", "--data-dir", str(folder), *arguments, output=OutputFormat.JSON
    )
    return outcome, json.loads(outcome.out or "[]")


def recreate_both(folder: Path) -> Outcome:
    both = ("--topic", AUDIT_TOPIC, "--dry-run", "--execute")
    return offsetd_log("recreate", "--data-dir", str(folder), *both)


def test_a_topic_begins_anew(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    before = states(folder)
    outcome, (row,) = recreate(folder, "--topic", AUDIT_TOPIC, "--dry-run")
    assert outcome.code == 0
    assert states(folder) == before
    size = row["bytes_lost"]
    outcome, (row,) = recreate(folder, "--topic", AUDIT_TOPIC)
    assert (row["bytes_lost"], row["start_offset"]) == (size, None)
    assert "nothing was changed: repeat with --execute to do it" in outcome.err
    assert f"{AUDIT_TOPIC}-0 is not damaged" in outcome.err
    assert states(folder) == before
    assert recreate_both(folder).code == 2
    outcome, (row,) = recreate(folder, "--topic", AUDIT_TOPIC, "--execute")
    assert outcome.code == 0, outcome.err
    assert (row["bytes_lost"], row["start_offset"]) == (size, 7)
    assert segments(folder) == [f"{7:020d}"]
    store = opened(folder)
    assert not store.quarantined
    assert store.logs[OFFSETS].offset_next == 7
    store.close()


def test_who_gives_up_the_settings_is_told_what_goes_with_them(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    for argument in ("--dry-run", "--execute"):
        outcome, _ = recreate(folder, "--topic", CONFIG_TOPIC, argument)
        assert outcome.code == 0
        assert "the access rules of `offsetd acls`" in outcome.err
        assert "only super.users may do anything" in outcome.err


def test_a_quarantined_partition_begins_anew(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    store = opened(folder)
    append(store, OFFSETS)
    store.advance_recovery_points()
    store.abandon()
    shutil.rmtree(folder / OFFSETS.folder_name)
    store = opened(folder)
    assert OFFSETS in store.quarantined
    store.close()
    outcome, _ = recreate(folder, "--topic", OFFSETS.topic)
    assert outcome.code == 2
    outcome, (row,) = recreate(folder, "--topic", OFFSETS.topic, "--partition", "0", "--execute")
    assert outcome.code == 0, outcome.err
    assert "is not damaged" not in outcome.err
    assert (row["bytes_lost"], row["start_offset"]) == (0, 1)
    store = opened(folder)
    assert not store.quarantined
    store.close()


@pytest.mark.parametrize(
    ("topic", "partition"), [("nope", 0), (AUDIT_TOPIC, 1), ("__consumer_offsets", 99)]
)
def test_a_partition_that_the_folder_does_not_know_is_not_made(
    tmp_path: Path, topic: str, partition: int
) -> None:
    folder = made(tmp_path / "offsets")
    before = states(folder)
    for dry in (("--execute",), ("--dry-run",)):
        outcome, _ = recreate(folder, "--topic", topic, "--partition", str(partition), *dry)
        assert outcome.code == 1
        assert outcome.err == (
            f"error: {folder} has nothing of {topic}-{partition}; nothing was changed\n"
        )
    assert states(folder) == before

"""`offsetd log clean` on folders of our own and of a broker, on damaged ones, beside a server."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from log_commands import Outcome, offsetd_log
from offsetd_clients.cli.printing.terminal import OutputFormat
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.disk_space import RESERVE_NAME
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import StorageFull
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition

BROKER = Path(__file__).parents[3] / "golden" / "kafka-4.1.1" / "data"
PARTITIONS = 3
CONFIG = LogStoreConfig(partitions=PARTITIONS, journal_file_bytes=2 << 20)
NOW_MS = 1_700_000_000_000
GROUPS = {partition_of(name, PARTITIONS): name for name in "abcdefghij"}  # One a partition.
CROWDED, QUIET = sorted(GROUPS)[:2]


def opened(folder: Path) -> LogStore:
    return LogStore.open(
        OsFiles(), folder, CONFIG, clock=ManualClock(NOW_MS), random=random.Random(7)
    )


def commit(store: LogStore, partition: int, *, topic: str = "t") -> None:
    """Overwrites one offset with that of its own record."""
    place = TopicPartition("__consumer_offsets", partition)
    offset = store.logs[place].offset_next
    record = Record(
        key=encode_key(OffsetKey(group=GROUPS[partition], topic=topic, partition=0)),
        value=OffsetCommitValue(offset=offset, commit_timestamp_ms=NOW_MS).encode(4),
        offset=offset,
        timestamp_ms=NOW_MS,
    )
    batch = encode_batch([record], base_offset=offset)
    store.append(place, batch, last_offset=offset, max_timestamp_ms=NOW_MS)
    store.flush()


def fill(store: LogStore, *, rolls: bool) -> None:
    """20 commits of one offset in one partition, 2 in another; with `rolls` they are closed."""
    for partition, count in ((CROWDED, 20), (QUIET, 2)):
        for number in range(count):
            commit(store, partition)
            if rolls and number % 8 == 7:
                store.roll(TopicPartition("__consumer_offsets", partition))
        if rolls:
            store.roll(TopicPartition("__consumer_offsets", partition))


def made(folder: Path, *, rolls: bool = True) -> Path:
    store = opened(folder)
    fill(store, rolls=rolls)
    store.close()
    return folder


def states(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder, with when it was changed."""
    return {
        str(path): (path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
        for path in (folder, *folder.rglob("*"))
    }


def values(folder: Path) -> dict[tuple[int, bytes | None], bytes | None]:
    """What a replay of every partition ends with."""
    found = {}
    for path in sorted(folder.glob("__consumer_offsets-*/*.log")):
        for batch in decode_batches(path.read_bytes()):
            for record in batch.records:
                found[int(path.parent.name.rpartition("-")[2]), record.key] = record.value
    return found


def log_bytes(folder: Path, partition: int) -> int:
    paths = (folder / f"__consumer_offsets-{partition}").glob("*.log")
    return sum(path.stat().st_size for path in paths)


def clean(folder: Path, *arguments: str) -> tuple[Outcome, list[dict[str, Any]]]:
    """Runs it, and reads its rows."""
    outcome = offsetd_log("clean", "--data-dir", str(folder), *arguments, output=OutputFormat.JSON)
    return outcome, json.loads(outcome.out or "[]")


def test_a_pass_keeps_the_last_value_of_every_key_and_the_folder_is_right(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    before, size = values(folder), log_bytes(folder, CROWDED)
    outcome, rows = clean(folder)
    assert outcome.code == 0
    assert [row["partition"] for row in rows] == [CROWDED, QUIET]
    crowded = rows[0]
    assert (crowded["records_before"], crowded["records_after"]) == (20, 1)
    assert (crowded["segments_before"], crowded["segments_after"]) == (3, 1)
    assert crowded["bytes_before"] == size
    assert crowded["bytes_after"] == log_bytes(folder, CROWDED) < size
    assert crowded["problem"] is None
    assert values(folder) == before
    verified = offsetd_log("verify", "--data-dir", str(folder))
    assert verified.err == "checked 2 records in 2 batches of 5 partitions\n"
    store = opened(folder)
    assert store.report.closed_clean
    store.close()
    saved = sum(row["bytes_before"] - row["bytes_after"] for row in rows)
    total = sum(row["bytes_before"] for row in rows)
    assert outcome.err == f"saved {saved} of {total} bytes in 2 partitions\n"


def test_a_second_pass_has_nothing_left_to_save(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    clean(folder)
    outcome, rows = clean(folder)
    assert outcome.code == 0
    assert outcome.err.startswith("saved 0 of ")
    assert all(row["bytes_before"] == row["bytes_after"] for row in rows)


@pytest.mark.parametrize("rolls", [True, False], ids=["closed segments", "--roll-active"])
def test_a_dry_run_says_what_the_pass_then_does_and_changes_nothing(
    tmp_path: Path, rolls: bool
) -> None:
    folder = made(tmp_path / "offsets", rolls=rolls)
    asked = () if rolls else ("--roll-active",)
    before = states(folder)
    dry, dry_rows = clean(folder, *asked, "--dry-run")
    assert states(folder) == before
    done, rows = clean(folder, *asked)
    assert (dry.code, done.code) == (0, 0)
    assert dry_rows == rows
    assert dry.err.replace("a pass would save", "saved") == done.err
    assert states(folder) != before


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["for good", "dry"])
def test_the_segment_that_takes_appends_is_cleaned_only_when_it_is_ended(
    tmp_path: Path, dry: tuple[str, ...]
) -> None:
    folder = made(tmp_path / "offsets", rolls=False)
    outcome, rows = clean(folder, *dry)
    assert (outcome.code, rows) == (0, [])
    assert outcome.err == (
        "nothing to clean: no partition has a segment that may be cleaned;"
        " records stay for 3600000 ms (history.ms);"
        " --roll-active ends those that take appends\n"
    )
    outcome, rows = clean(folder, "--roll-active", *dry)
    assert outcome.code == 0
    assert rows[0]["records_after"] == 1


def test_only_the_partitions_that_are_asked_for_are_cleaned(tmp_path: Path) -> None:
    folder = made(tmp_path / "offsets")
    untouched = log_bytes(folder, CROWDED)
    outcome, rows = clean(folder, "-p", str(QUIET))
    assert outcome.code == 0
    assert [row["partition"] for row in rows] == [QUIET]
    assert log_bytes(folder, CROWDED) == untouched


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["for good", "dry"])
def test_a_damaged_partition_is_told_and_the_others_are_cleaned(
    tmp_path: Path, dry: tuple[str, ...]
) -> None:
    folder = made(tmp_path / "offsets")
    name = f"__consumer_offsets-{CROWDED}"
    path = folder / name / f"{0:020}.log"
    raw = bytearray(path.read_bytes())
    raw[100] ^= 0xFF
    path.write_bytes(raw)
    outcome, rows = clean(folder, *dry)
    assert outcome.code == 3
    assert [row["partition"] for row in rows] == [CROWDED, QUIET]
    assert "bad_checksum" in rows[0]["problem"].lower()
    assert rows[0]["bytes_after"] is None
    assert rows[1]["records_after"] == 1
    assert outcome.err.splitlines()[-1] == f"error: cannot be cleaned: {name}"
    assert path.read_bytes() == raw
    alone, _ = clean(folder, "-p", str(CROWDED), *dry)
    assert alone.code == 1


def test_a_folder_that_a_server_has_open_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    store = opened(folder)
    fill(store, rolls=True)
    before = states(folder)
    outcome, rows = clean(folder)
    assert (outcome.code, rows) == (1, [])
    assert outcome.err.startswith("error: ")
    assert outcome.err.endswith("is in use by another process (a server, or a broker)\n")
    assert states(folder) == before
    store.abandon()


def test_beside_a_server_a_dry_run_looks_below_the_recovery_points(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    store = opened(folder)
    fill(store, rolls=True)
    store.advance_recovery_points()
    commit(store, CROWDED)
    store.roll(TopicPartition("__consumer_offsets", CROWDED))
    before = states(folder)
    outcome, rows = clean(folder, "--dry-run", "--roll-active")
    assert outcome.code == 0
    assert rows[0]["records_before"] == 20
    assert "below its recovery points" in outcome.err.splitlines()[0]
    assert states(folder) == before
    store.abandon()


def test_a_folder_that_was_not_closed_is_recovered_before(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    store = opened(folder)
    fill(store, rolls=False)
    for log in store.logs.values():
        log.write()
    before = values(folder)
    store.abandon()
    outcome, rows = clean(folder, "--roll-active")
    assert outcome.code == 0
    assert rows[0]["records_before"] == 20
    assert values(folder) == before
    assert offsetd_log("verify", "--data-dir", str(folder)).err.startswith("checked 2 records")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "does not exist"),
        (lambda folder: folder.touch(), "is not a folder"),
        (lambda folder: folder.mkdir(), "has no partition folders"),
        (lambda folder: (folder / "other-0").mkdir(parents=True), "no partition of __consumer_"),
    ],
    ids=["missing", "file", "empty", "another topic"],
)
def test_what_is_no_folder_of_ours_is_one_clear_line_and_stays(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "folder")
    before = sorted(tmp_path.rglob("*"))
    outcome, _ = clean(tmp_path / "folder")
    assert outcome.code == 1
    (line,) = outcome.err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("assignment", "code", "message"),
    [
        ("cleanup.policy=delete", 2, "cleanup.policy: delete is not for __consumer_offsets"),
        ("cleanup.policy=", 1, "cleanup.policy of __consumer_offsets is not compact"),
        ("log.cleaner.thread=1", 2, "did you mean log.cleaner.threads?"),
        (
            "delete.retention.ms=soon",
            2,
            "delete.retention.ms (--set): 'soon' is not a whole number",
        ),
        ("segment.ms=0", 2, "segment.ms (--set): 0 is not a whole number from 1"),
        ("data.dir=elsewhere", 2, "name the folder with --data-dir"),
        ("log.cleaner.dedupe.buffer.size=1000", 2, "are not more than 1048576 bytes"),
        ("log.cleaner.io.buffer.load.factor=0.0000001", 2, "is too small"),
        ("offsets.topic.num.partitions=4", 1, "has 3 partitions of __consumer_offsets, not 4"),
    ],
)
def test_settings_are_those_of_kafka_and_a_wrong_one_is_one_line(
    tmp_path: Path, assignment: str, code: int, message: str
) -> None:
    folder = made(tmp_path / "offsets")
    before = values(folder), log_bytes(folder, CROWDED)
    outcome, _ = clean(folder, "--set", assignment)
    assert outcome.code == code
    (line,) = outcome.err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert (values(folder), log_bytes(folder, CROWDED)) == before


@pytest.mark.parametrize(
    ("assignments", "ruling"),
    [
        (("min.compaction.lag.ms=9000000000000",), "9000000000000 ms (min.compaction.lag.ms)"),
        (("history.ms=86400000",), "86400000 ms (history.ms)"),
        (
            ("history.ms=0", "request.id.window.ms=86400000"),
            "86400001 ms (request.id.window.ms)",
        ),
    ],
)
def test_nothing_to_clean_is_no_failure_and_names_the_setting_that_keeps_the_records(
    tmp_path: Path, assignments: tuple[str, ...], ruling: str
) -> None:
    folder = made(tmp_path / "offsets", rolls=False)
    options = [part for each in assignments for part in ("--set", each)]
    outcome, rows = clean(folder, *options)
    assert (outcome.code, rows) == (0, [])
    assert outcome.err.startswith("nothing to clean: ")
    assert f"records stay for {ruling}" in outcome.err


def test_a_buffer_for_too_few_keys_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    store = opened(folder)
    for topic in "xyz":
        for _ in range(3):
            commit(store, CROWDED, topic=topic)
    store.close()
    two_keys = ("--set", "log.cleaner.io.buffer.load.factor=0.0000004")
    before = values(folder)
    outcome, (row,) = clean(folder, "--roll-active", *two_keys)
    assert outcome.code == 0
    assert "needs another pass from offset 4 on" in outcome.err
    assert (row["records_before"], row["records_after"]) == (9, 7)
    again, (row,) = clean(folder)
    assert "another pass" not in again.err
    assert row["records_after"] == 3
    assert values(folder) == before


def test_a_brokers_folder_is_cleaned_and_stays_right(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(BROKER, folder)
    before, before_states = values(folder), states(folder)
    dry, dry_rows = clean(folder, "--roll-active", "--dry-run")
    assert states(folder) == before_states
    outcome, rows = clean(folder, "--roll-active")
    assert (dry.code, outcome.code) == (0, 0)
    assert dry_rows == rows
    assert sum(row["bytes_after"] for row in rows) < sum(row["bytes_before"] for row in rows)
    # Records of transactions that were aborted go, and their values with them.
    assert values(folder).items() <= before.items()
    assert offsetd_log("verify", "--data-dir", str(folder)).code == 0


def test_a_recovery_that_finds_no_room_is_tried_again_without_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "offsets")
    reserve = folder / RESERVE_NAME
    reserve.write_bytes(b"")
    opens = LogStore.open

    def full(*arguments: Any, **named: Any) -> LogStore:
        if reserve.exists():
            raise StorageFull("no room")
        return opens(*arguments, **named)

    monkeypatch.setattr(LogStore, "open", full)
    outcome, rows = clean(folder)
    assert outcome.code == 0, outcome.err
    assert rows


# Topics that are not the server's ---------------------------------------------------------------

BROKERS_FILES = (
    ".kafka_cleanshutdown",
    ".lock",
    "cleaner-offset-checkpoint",
    "leader-epoch-checkpoint",
    "log-start-offset-checkpoint",
    "meta.properties",
    "recovery-point-offset-checkpoint",
)


def with_topic(folder: Path, topic: str) -> Path:
    """A topic of a broker's, beside whatever is in the folder: 20 values of one key, rolled."""
    made_apart = made(folder.with_name("apart"))
    shutil.copytree(made_apart / f"__consumer_offsets-{CROWDED}", folder / f"{topic}-0")
    shutil.copytree(made_apart / f"__consumer_offsets-{QUIET}", folder / f"{topic}-1")
    return folder


def names(folder: Path) -> set[str]:
    """Of all that is in a folder but segments."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.suffix not in (".log", ".index", ".timeindex")
    }


@pytest.mark.parametrize("whose", ["a broker's", "our"])
def test_another_topic_is_cleaned_as_the_dry_run_says_and_leaves_nothing_of_ours(
    tmp_path: Path, whose: str
) -> None:
    folder = tmp_path / "copy"
    if whose == "our":
        made(folder)
    else:
        shutil.copytree(BROKER, folder)
    with_topic(folder, "orders")
    before, before_states = names(folder), states(folder)
    arguments = ("--topic", "orders", "--set", "cleanup.policy=compact")
    dry, dry_rows = clean(folder, *arguments, "--dry-run")
    assert states(folder) == before_states
    outcome, rows = clean(folder, *arguments)
    assert (dry.code, outcome.code) == (0, 0), outcome.err
    assert dry_rows == rows
    assert [(row["records_before"], row["records_after"]) for row in rows] == [(20, 1), (2, 1)]
    left = {name for name in names(folder) - before if Path(name).name not in BROKERS_FILES}
    assert left == set()
    changed = {name for name, state in states(folder).items() if before_states.get(name) != state}
    assert not [name for name in changed if "__consumer" in name or "offsetd" in Path(name).name]
    again, rows = clean(folder, *arguments)
    assert again.code == 0
    assert all(row["records_before"] == row["records_after"] for row in rows)


def test_a_brokers_folder_stays_a_brokers(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(BROKER, folder)
    before = names(folder)
    outcome, _ = clean(folder, "--roll-active")
    assert outcome.code == 0, outcome.err
    assert {Path(name).name for name in names(folder) - before} <= set(BROKERS_FILES)
    assert before <= names(folder), "a broker's files are left"


def test_another_topic_that_is_damaged_is_told_and_the_lock_is_respected(tmp_path: Path) -> None:
    folder = with_topic(tmp_path / "copy", "orders")
    path = min((folder / "orders-0").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    arguments = ("--topic", "orders", "--set", "cleanup.policy=compact")
    held = OsFiles().lock(folder / ".lock")
    assert held is not None
    refused, _ = clean(folder, *arguments)
    held.release()
    assert refused.code == 1
    assert "is in use by another process" in refused.err
    outcome, rows = clean(folder, *arguments)
    assert outcome.code == 3
    assert "damaged" in rows[0]["problem"]
    assert rows[1]["records_after"] == 1
    assert path.read_bytes() == bytes(content)

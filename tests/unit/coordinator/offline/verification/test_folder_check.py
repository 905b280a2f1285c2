"""Damage beside the logs: checkpoints, the journal, quarantine files."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from journals import point_at
from offsetd_coordinator.offline.verification.folder_check import folder_findings
from offsetd_coordinator.offline.verification.log_check import LogVerifier
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.recovery.quarantine import Claim, write_quarantine_file
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import read_folder

FIRST = TopicPartition("__consumer_offsets", 0)


def open_store(folder: Path) -> LogStore:
    config = LogStoreConfig(partitions=2, journal_file_bytes=256 << 10)
    return LogStore.open(OsFiles(), folder, config, clock=ManualClock(), random=random.Random(7))


def append(store: LogStore, offset: int) -> None:
    record = Record(key=b"\x4f\x45", value=b"v" * 200, offset=offset, timestamp_ms=1)
    batch = encode_batch([record], base_offset=offset)
    store.append(FIRST, batch, last_offset=offset, max_timestamp_ms=1)
    store.flush()


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A folder whose server died with frames behind the recovery point."""
    folder = tmp_path / "offsets"
    store = open_store(folder)
    for offset in range(5):
        append(store, offset)
    store.abandon()
    return folder


@pytest.fixture
def closed(crashed: Path) -> Path:
    """A folder that was recovered and closed: its log ends at 5."""
    open_store(crashed).close()
    return crashed


def findings(folder: Path) -> list[tuple[str, int | None, str]]:
    files = OsFiles()
    view = read_folder(files, folder)
    verifiers = {log.topic_partition: LogVerifier(files, log, partitions=2) for log in view.logs}
    found = [each for verifier in verifiers.values() for each in verifier.findings()]
    assert found == []
    found = list(folder_findings(files, view, verifiers))
    return [(each.file, each.position, each.reason) for each in found]


def test_folders_that_are_as_they_should_be_have_no_findings(crashed: Path) -> None:
    assert findings(crashed) == []
    open_store(crashed).close()
    assert findings(crashed) == []


@pytest.mark.parametrize(
    ("name", "content", "position", "reason"),
    [
        ("recovery-point-offset-checkpoint", "0\n1\n__consumer_offsets 0 6\n", 4, "from 0 to 5"),
        ("cleaner-offset-checkpoint", "0\n1\n__consumer_offsets 1 1\n", 4, "from 0 to 0"),
        ("log-start-offset-checkpoint", "0\n1\n__consumer_offsets 0 9\n", 4, "is outside"),
        ("cleaner-offset-checkpoint", "nonsense", None, ""),
        ("replication-offset-checkpoint", "0\n2\nother 0 1\n", None, ""),
        ("recovery-point-offset-checkpoint", "0\n1\n__consumer_offsets 0 x\n", None, ""),
    ],
)
def test_a_checkpoint_that_does_not_fit_the_logs_is_named(
    closed: Path, name: str, content: str, position: int | None, reason: str
) -> None:
    (closed / name).write_text(content)
    ((file, found_position, text),) = findings(closed)
    assert (file, found_position) == (name, position)
    assert text
    assert reason in text


def test_checkpoints_of_partitions_that_were_not_looked_at_are_left_alone(closed: Path) -> None:
    (closed / "cleaner-offset-checkpoint").write_text("0\n1\nother 7 99\n")
    assert findings(closed) == []


def zeroed(path: Path, start: int, end: int) -> None:
    content = bytearray(path.read_bytes())
    content[start:end] = bytes(end - start)
    path.write_bytes(content)


def first_frame(folder: Path) -> tuple[Path, int]:
    """The journal file in use, and where its first batch of five lies."""
    for number in (0, 1):
        path = folder / f"offsetd-journal-{number}"
        position = path.read_bytes().find(b"v" * 200)
        if position >= 0:
            return path, position
    raise AssertionError("no frame was found")


def test_rot_in_the_middle_of_the_journal_is_named(crashed: Path) -> None:
    path, position = first_frame(crashed)
    zeroed(path, position, position + 8)
    ((file, _, reason),) = findings(crashed)
    assert file == path.name
    assert "at byte" in reason


def test_a_journal_without_a_header_is_named(crashed: Path) -> None:
    for number in (0, 1):
        zeroed(crashed / f"offsetd-journal-{number}", 0, 64 << 10)
    ((file, _, reason),) = findings(crashed)
    assert file.startswith("offsetd-journal-")
    assert reason


@pytest.mark.parametrize(
    "damage",
    [lambda path: path.write_bytes(b"short"), lambda path: path.write_bytes(bytes(200))],
    ids=["short", "zeros"],
)
def test_a_quarantine_file_that_is_not_whole_is_named(
    closed: Path, damage: Callable[[Path], object]
) -> None:
    damage(closed / "offsetd-quarantine-__consumer_offsets-0")
    ((file, _, reason),) = findings(closed)
    assert file == "offsetd-quarantine-__consumer_offsets-0"
    assert "cannot be read" in reason


def test_a_quarantine_whose_damage_is_gone_is_named(closed: Path) -> None:
    """The folder of the partition was put back from a good copy."""
    claim = Claim(point=point_at(FIRST, 5), batches=(), closed_clean=True)
    write_quarantine_file(OsFiles(), closed, claim)
    ((file, _, reason),) = findings(closed)
    assert file == "offsetd-quarantine-__consumer_offsets-0"
    assert "is served again once its damage is gone" in reason


def test_nothing_is_changed_by_looking(crashed: Path) -> None:
    before = {path: path.stat() for path in crashed.rglob("*")}
    findings(crashed)
    after = {path: path.stat() for path in crashed.rglob("*")}
    assert {path: (stat.st_mtime_ns, stat.st_size) for path, stat in after.items()} == {
        path: (stat.st_mtime_ns, stat.st_size) for path, stat in before.items()
    }

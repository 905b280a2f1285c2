"""`offsetd log describe|dump|verify` on a broker's folder, on damaged copies, beside a server."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from log_commands import offsetd_log
from offsetd_clients.cli.printing.terminal import OutputFormat
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.1.1"
BROKER = GOLDEN / "data"
SEGMENT = "00000000000000000000"


def golden_dump(*partitions: int) -> list[str]:
    """Kafka's lines for these partitions, or for all."""
    by_partition: dict[int, list[str]] = {}
    for line in (GOLDEN / "dump.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            current = by_partition.setdefault(int(line.rpartition("-")[2]), [])
        else:
            current.append(line)
    return [line for each in partitions or sorted(by_partition) for line in by_partition[each]]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the broker's folder, to be damaged."""
    folder = tmp_path / "copy"
    shutil.copytree(BROKER, folder)
    return folder


def test_the_dump_of_a_brokers_folder_is_kafkas_by_partition() -> None:
    outcome = offsetd_log("dump", "--data-dir", str(BROKER), "--offsets-decoder")
    assert outcome.lines == golden_dump()
    assert (outcome.code, outcome.err) == (0, "")


def test_only_the_partitions_that_are_asked_for_are_dumped() -> None:
    asked = ("--partition", "12", "-p", "3", "-p", "12")
    outcome = offsetd_log("dump", "--data-dir", str(BROKER), "--offsets-decoder", *asked)
    assert outcome.lines == golden_dump(3, 12)


def test_without_the_decoder_contents_are_not_shown() -> None:
    outcome = offsetd_log("dump", "--data-dir", str(BROKER), "-p", "3")
    decoded = [line.partition(" key: ")[0] for line in golden_dump(3)]
    assert outcome.lines == decoded


def test_a_brokers_folder_is_right() -> None:
    outcome = offsetd_log("verify", "--data-dir", str(BROKER), output=OutputFormat.JSON)
    assert outcome.code == 0
    assert json.loads(outcome.out) == []
    assert outcome.err == "checked 700 records in 179 batches of 22 partitions\n"


def test_a_log_is_described_in_numbers() -> None:
    arguments = ("describe", "--data-dir", str(BROKER), "-p", "12")
    outcome = offsetd_log(*arguments, output=OutputFormat.JSON)
    assert outcome.code == 0
    assert json.loads(outcome.out) == [
        {
            "partition": 12,
            "start_offset": 0,
            "end_offset": 28,
            "segments": 1,
            "bytes": 3636,
            "batches": 22,
            "records": 28,
            "problem": None,
        }
    ]


def change(path: Path, position: int, content: bytes) -> None:
    raw = bytearray(path.read_bytes())
    raw[position : position + len(content)] = content
    path.write_bytes(raw)


def damage_value(path: Path) -> None:
    """Cuts the value of the first record short, and seals the batch again."""
    raw = path.read_bytes()
    batch = decode_batch(raw)
    first = attrs.evolve(batch.records[0], value=(batch.records[0].value or b"")[:5])
    options = {"base_offset": batch.base_offset, "leader_epoch": batch.partition_leader_epoch}
    changed = encode_batch([first, *batch.records[1:]], **options)
    path.write_bytes(changed + raw[batch.size_bytes :])


def move_log(path: Path) -> None:
    """Puts partition 3's log into partition 2's folder."""
    shutil.copy(path.parent.parent / "__consumer_offsets-3" / path.name, path)


# In partition 2 batches begin at bytes 0, 1579, 1713 and 4317.
@pytest.mark.parametrize(
    ("file", "damage", "position", "reason"),
    [
        (
            f"__consumer_offsets-2/{SEGMENT}.log",
            lambda path: change(path, 4200, b"\xff\xff"),
            1713,
            "a batch has a wrong checksum; the next valid batch is at byte 4317",
        ),
        (
            f"__consumer_offsets-2/{SEGMENT}.log",
            lambda path: path.write_bytes(path.read_bytes() + b"\x00" * 10),
            15725,
            "as after a torn write",
        ),
        (f"__consumer_offsets-2/{SEGMENT}.log", damage_value, 0, "does not decode"),
        (f"__consumer_offsets-2/{SEGMENT}.log", move_log, 0, "belongs in partition 3, not 2"),
        (
            f"__consumer_offsets-2/{SEGMENT}.index",
            lambda path: change(path, 4, b"\x00\x00\x00\x07"),
            0,
            "is not at byte 7 of the log",
        ),
        (
            f"__consumer_offsets-2/{SEGMENT}.timeindex",
            lambda path: path.write_bytes(path.read_bytes()[:-1]),
            None,
            "its size is not a multiple of 12",
        ),
        (f"__consumer_offsets-2/{SEGMENT}.index", Path.unlink, None, "the index is missing"),
        (
            "__consumer_offsets-2/leader-epoch-checkpoint",
            lambda path: path.write_text("0\n1\n0 61\n"),
            None,
            "leader epoch 0 begins at 61, above the log's end 60",
        ),
        (
            "recovery-point-offset-checkpoint",
            lambda path: path.write_text("0\n1\n__consumer_offsets 2 61\n"),
            4,
            "__consumer_offsets-2: 61 is outside the log, which ranges from 0 to 60",
        ),
        ("cleaner-offset-checkpoint", lambda path: path.write_text("0\nx\n"), None, ""),
    ],
    ids=[
        "batch",
        "torn tail",
        "value",
        "placement",
        "index",
        "time index",
        "no index",
        "leader epochs",
        "recovery points",
        "checkpoint",
    ],
)
def test_every_kind_of_damage_is_named_by_file_position_and_reason(
    copy: Path, file: str, damage: Callable[[Path], object], position: int | None, reason: str
) -> None:
    damage(copy / file)
    # Without the checkpoint that names it, a broker's folder does not know of partition 49.
    (copy / "__consumer_offsets-49").mkdir()
    (copy / "__consumer_offsets-49" / f"{SEGMENT}.log").touch()
    outcome = offsetd_log("verify", "--data-dir", str(copy), output=OutputFormat.JSON)
    assert outcome.code == 1
    rows = json.loads(outcome.out)
    assert (rows[0]["file"], rows[0]["position"]) == (file, position)
    assert reason in rows[0]["reason"]
    assert outcome.err.splitlines()[-1].startswith("error: ")
    assert outcome.err.splitlines()[-1].endswith("finding" if len(rows) == 1 else "findings")


def test_the_partitions_that_are_not_damaged_are_checked_all_the_same(copy: Path) -> None:
    for partition in (2, 3):
        change(copy / f"__consumer_offsets-{partition}" / f"{SEGMENT}.log", 100, b"\x00\x00")
    everything = offsetd_log("verify", "--data-dir", str(copy), output=OutputFormat.JSON)
    assert [row["file"] for row in json.loads(everything.out)] == [
        f"__consumer_offsets-{partition}/{SEGMENT}.log" for partition in (2, 3)
    ]
    others = ("-p", "0", "-p", "47")
    assert offsetd_log("verify", "--data-dir", str(copy), *others).code == 0
    described = offsetd_log("describe", "--data-dir", str(copy), "-p", "2")
    assert described.code == 0
    assert f"bad_checksum at byte 0 of {SEGMENT}.log" in described.out


@pytest.mark.parametrize("command", ["describe", "dump", "verify"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "does not exist"),
        (lambda folder: folder.touch(), "is not a folder"),
        (lambda folder: folder.mkdir(), "has no partition folders"),
        (lambda folder: (folder / "other-0").mkdir(parents=True), "no partition of __consumer_"),
        (
            lambda folder: (
                (folder / "__consumer_offsets-0").mkdir(parents=True),
                (folder / "offsetd.properties").write_text("format.version=99\n"),
            ),
            "has format 99",
        ),
        (
            lambda folder: (
                (folder / "__consumer_offsets-0").mkdir(parents=True),
                (folder / "offsetd.properties").write_text("nonsense"),
            ),
            "is damaged",
        ),
        (
            lambda folder: (folder / f"__consumer_offsets-0/{SEGMENT}.log").mkdir(parents=True),
            "Is a directory",
        ),
    ],
    ids=["missing", "file", "empty", "another topic", "newer", "properties", "not a file"],
)
def test_a_folder_that_cannot_be_read_is_one_clear_line(
    tmp_path: Path, command: str, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "folder")
    outcome = offsetd_log(command, "--data-dir", str(tmp_path / "folder"))
    assert outcome.code == 1
    (line,) = outcome.err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_a_partition_that_is_not_there_is_one_clear_line() -> None:
    outcome = offsetd_log("dump", "--data-dir", str(BROKER), "-p", "6")
    assert outcome.code == 1
    assert outcome.err == f"error: {BROKER} has no folder __consumer_offsets-6\n"


def commit(store: LogStore, offset: int) -> None:
    partition = partition_of("g", 3)
    record = Record(
        key=encode_key(OffsetKey(group="g", topic="t", partition=0)),
        value=OffsetCommitValue(offset=offset, commit_timestamp_ms=1).encode(4),
        offset=offset,
        timestamp_ms=1,
    )
    batch = encode_batch([record], base_offset=offset)
    place = TopicPartition("__consumer_offsets", partition)
    store.append(place, batch, last_offset=offset, max_timestamp_ms=1)
    store.flush()


def test_beside_a_running_server_only_what_lies_below_the_recovery_points_is_seen(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "offsets"
    config = LogStoreConfig(partitions=3, journal_file_bytes=256 << 10)
    store = LogStore.open(OsFiles(), folder, config, clock=ManualClock(), random=random.Random(7))
    commit(store, 0)
    store.advance_recovery_points()
    commit(store, 1)
    arguments = ("dump", "--data-dir", str(folder), "--offsets-decoder")
    beside = offsetd_log(*arguments)
    assert beside.out.count("| offset: ") == 1
    assert "below its recovery points" in beside.err
    assert offsetd_log("verify", "--data-dir", str(folder)).code == 0
    store.close()
    after = offsetd_log(*arguments)
    assert after.out.count("| offset: ") == 2
    assert after.err == ""
    assert offsetd_log("verify", "--data-dir", str(folder)).code == 0


def test_nothing_in_the_folder_changes(copy: Path) -> None:
    def states() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in copy.rglob("*")}

    before = states()
    for command in ("describe", "dump", "verify"):
        offsetd_log(command, "--data-dir", str(copy))
    assert states() == before

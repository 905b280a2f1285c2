"""A real Kafka broker is given partition folders that offsetd wrote, in place of its own."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import attrs
import pytest
from interop.kafka_broker import OFFSETS_PARTITIONS, OFFSETS_TOPIC, KafkaBroker
from interop.kafka_dump import complaints, dump
from interop.kafka_protocol import KafkaOffset
from interop.served_folder import OFFSETD, ServedFolder
from interop.workload import Offsets, Workload, fetch_all

from deploy.kafka.kafka_runtime import Runtime

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=1)]

# Small, so that a log has several segments, and indexes have entries.
SETTINGS = ("offsets.topic.segment.bytes=1048576", "index.interval.bytes=1024")


@attrs.frozen
class Written:
    """A data folder that offsetd wrote and closed clean, and what is stored in it."""

    data_folder: Path
    stored: dict[str, Offsets]
    batches: int

    def files(self, suffix: str) -> list[str]:
        """By their paths in the data folder."""
        paths = sorted(self.data_folder.glob(f"{OFFSETS_TOPIC}-*/*{suffix}"))
        return [str(path.relative_to(self.data_folder)) for path in paths]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, seed: int) -> Written:
    folder = tmp_path_factory.mktemp("ours")
    server = ServedFolder(folder / "data", settings=SETTINGS)
    with server.running() as client:
        workload = Workload(client, Random(seed))
        workload.write_all()
        assert fetch_all(client) == workload.stored
    written = Written(folder / "data", workload.stored, workload.batches)
    assert len(written.files(".log")) > OFFSETS_PARTITIONS, "some log has several segments"
    return written


def by_file(lines: list[str]) -> dict[str, list[str]]:
    """The dump of each file, by the line that begins it."""
    dumps: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("Dumping "):
            dump = dumps.setdefault(line, [])
        elif line and not line.startswith("# "):
            dump.append(line)
    return dumps


def test_kafkas_dump_of_our_log_is_our_own_dump(kafka_runtime: Runtime, written: Written) -> None:
    options = ("--offsets-decoder", "--deep-iteration")
    theirs = dump(kafka_runtime, written.data_folder, written.files(".log"), *options).stdout
    ours = subprocess.run(
        [OFFSETD, "log", "dump", "--offsets-decoder", "--data-dir", written.data_folder],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=120,
    ).stdout
    assert theirs.count(" isvalid: true") == written.batches
    assert " isvalid: false" not in theirs
    assert by_file(ours.splitlines()) == by_file(theirs.splitlines())


def test_kafka_finds_nothing_wrong_with_our_logs_and_indexes(
    kafka_runtime: Runtime, written: Written
) -> None:
    indexes = written.files(".index") + written.files(".timeindex")
    checked = dump(kafka_runtime, written.data_folder, indexes, "--index-sanity-check")
    verdicts = [line for line in checked.stdout.splitlines() if not line.startswith("Dumping ")]
    assert len(verdicts) == len(indexes)
    # An index without entries is what a log gets that is shorter than the index interval.
    unusual = [line for line in verdicts if not line.endswith(" passed sanity check.")]
    assert all(line.endswith(".index is empty.") for line in unusual), unusual
    # Without the option the entries are compared with the log.
    compared = dump(kafka_runtime, written.data_folder, written.files(".log") + indexes)
    entries = compared.stdout.count("\noffset: ") + compared.stdout.count("\ntimestamp: ")
    assert entries > OFFSETS_PARTITIONS
    assert complaints(compared) == []


@pytest.mark.parametrize(
    ("suffix", "position"),
    [(".index", 3), (".timeindex", 7), (".log", 100)],
    ids=["an offset in an index", "a time in a time index", "a record"],
)
def test_kafka_would_find_one_wrong_bit(
    kafka_runtime: Runtime, written: Written, tmp_path: Path, suffix: str, position: int
) -> None:
    """The two tests above can fail."""
    damaged = Path(shutil.copytree(written.data_folder, tmp_path / "damaged"))
    largest = max(written.files(".index"), key=lambda name: (damaged / name).stat().st_size)
    path = (damaged / largest).with_suffix(suffix)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    files = [str(Path(largest).with_suffix(kind)) for kind in (".log", ".index", ".timeindex")]
    checked = dump(kafka_runtime, damaged, files)
    assert complaints(checked) != [] or " isvalid: false" in checked.stdout


@pytest.fixture(scope="module")
def given(
    used_broker: KafkaBroker, written: Written, tmp_path_factory: pytest.TempPathFactory
) -> KafkaBroker:
    """Stopped, with our partition folders; take copies."""
    broker = used_broker.copy_to(tmp_path_factory.mktemp("given") / "broker")
    broker.take_offsets_topic(written.data_folder)
    return broker


@pytest.fixture(scope="module")
def broker(given: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Running on our partition folders, and only read."""
    with given.copy_to(tmp_path_factory.mktemp("read") / "broker").running() as broker:
        yield broker


def test_a_broker_on_our_folders_answers_as_offsetd_did(
    broker: KafkaBroker, written: Written
) -> None:
    groups = broker.groups()
    assert set(groups) == set(written.stored)
    assert {(group.type, group.state, group.is_simple) for group in groups.values()} == {
        ("CLASSIC", "EMPTY", True)
    }
    assert broker.offsets(groups) == written.stored
    for group, offsets in written.stored.items():
        expected = {key: stored.offset for key, stored in offsets.items()}
        assert broker.admin_offsets(group) == expected


def test_kafkas_own_command_line_lists_our_groups(
    kafka_runtime: Runtime, broker: KafkaBroker, written: Written
) -> None:
    listed = kafka_runtime.run(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        ["--bootstrap-server", broker.address, "--list"],
        broker.folder,
    )
    assert set(listed.stdout.splitlines()) == set(written.stored)


def test_a_broker_on_our_folders_goes_on_from_there(
    kafka_runtime: Runtime, given: KafkaBroker, written: Written, tmp_path: Path
) -> None:
    broker = given.copy_to(tmp_path / "broker")
    more = {("orders", 0): KafkaOffset(offset=99, leader_epoch=None, metadata="")}
    with broker.running():
        broker.commit("large", more)
        broker.commit("new", more)
        more = broker.offsets(["new"])["new"]
    logs = [path for path in written.files(".log") if (broker.data_folder / path).exists()]
    checked = dump(kafka_runtime, broker.data_folder, logs)
    assert complaints(checked) == []
    expected = written.stored | {"large": written.stored["large"] | more, "new": more}
    with broker.running():
        assert set(broker.groups()) == set(expected)
        assert broker.offsets(expected) == expected

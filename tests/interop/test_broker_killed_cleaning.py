"""A broker cleans a folder whose segments we have listed, and is killed in the middle."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
import pytest
from interop.kafka_broker import OFFSETS_PARTITIONS, OFFSETS_TOPIC, KafkaBroker
from interop.served_folder import ServedFolder
from interop.workload import Offsets, fetch_all
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.offsets_topic.placement import partition_of

pytestmark = pytest.mark.kafka

GROUP = "committer"
PARTITION = partition_of(GROUP, OFFSETS_PARTITIONS)
COMMITS = 2000
WAIT_S_MAX = 120
# Our cleaner leaves the segments for the broker's.
OURS = ("internal.offsets.topic.segment.bytes=16384", "log.cleaner.enable=false")
EAGER = {"log.cleaner.backoff.ms": "50"}
SLOW = EAGER | {"log.cleaner.io.max.bytes.per.second": "20000"}
SWAPPED_SUFFIXES = (".log", ".index", ".timeindex")


@attrs.frozen(kw_only=True)
class Killed:
    """Copies of the broker's data folder, by what a kill had left, and what is stored."""

    folders: dict[str, Path]
    stored: dict[str, Offsets]


def names_in(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"*{suffix}"))


def wait_for(condition: Callable[[], object], broker: KafkaBroker) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline_s, broker.log_text()[-4000:]
        time.sleep(0.005)


def kept(broker: KafkaBroker, name: str) -> Path:
    """A copy of the data folder of a broker that was killed."""
    copy = broker.folder.parent / name
    subprocess.run(["cp", "-a", "--sparse=always", broker.data_folder, copy], check=True)
    return copy


@pytest.fixture(scope="module", params=["first", "second"])
def killed(
    request: pytest.FixtureRequest,
    used_broker: KafkaBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Killed:
    """In the broker's first or second turn on what we have listed; nobody writes in between."""
    broker = used_broker.copy_to(tmp_path_factory.mktemp("cleaning") / "broker")
    folder = broker.partition_folder(PARTITION)
    with broker.running():
        broker.set_topic(OFFSETS_TOPIC, {"min.compaction.lag.ms": str(2**62)})
    server = ServedFolder(broker.data_folder, settings=OURS)
    with server.running() as client:
        fill(client)
        stored = fetch_all(client)
    assert len(names_in(folder, ".log")) > 10
    assert (folder / SEGMENT_LIST_NAME).exists()
    if request.param == "second":
        with broker.running():
            pass
        with server.running() as client:
            assert fetch_all(client) == stored
    broker.settings = SLOW
    broker.start()
    broker.set_topic(OFFSETS_TOPIC, {"min.compaction.lag.ms": "0"})
    wait_for(lambda: any(path.stat().st_size for path in folder.glob("*.log.cleaned")), broker)
    broker.kill()
    folders = {"while it cleaned": kept(broker, "while it cleaned")}
    before = folders["while it cleaned"] / folder.name
    assert names_in(before, ".log.cleaned")
    broker.settings = EAGER
    broker.start()
    wait_for(lambda: len(names_in(folder, ".log")) < 5, broker)
    broker.kill()
    folders["with what it replaced"] = kept(broker, "with what it replaced")
    assert names_in(folder, ".log.deleted")
    for name, deleted in {"before it took away": 0, "while it took away": 3}.items():
        folders[name] = kept(broker, name)
        swapping(folders[name] / folder.name, before, deleted=deleted)
    return Killed(folders=folders, stored=stored)


def fill(client: OffsetClient) -> None:
    """Many commits of few partitions, so that there is much to clean.

    The first commit stays: so the cleaner writes at its begin, and takes ten more seconds.
    """
    client.commit(GROUP, {TopicPartition("kept", 0): OffsetToCommit(1)})
    for number in range(COMMITS):
        where = TopicPartition("orders", number % 7)
        client.commit(GROUP, {where: OffsetToCommit(number, metadata="m" * 60)})


def swapping(folder: Path, before: Path, *, deleted: int) -> None:
    """The middle of a swap of Kafka's: what it puts in is named, and what it replaces is there.

    Made of its end, in `folder`, and of its begin, as one cannot wait for it. The first `deleted`
    of what it replaces are on their way out.
    """
    for path in folder.glob("*.deleted"):
        path.unlink()
    (cleaned,) = set(names_in(folder, ".log")) - active_in(before)
    base = cleaned.removesuffix(".log")
    for suffix in SWAPPED_SUFFIXES:
        if (folder / f"{base}{suffix}").exists():
            (folder / f"{base}{suffix}").rename(folder / f"{base}{suffix}.swap")
    for place, name in enumerate(sorted(set(names_in(before, ".log")) - active_in(before))):
        end = ".deleted" if place < deleted else ""
        shutil.copy2(before / name, folder / f"{name}{end}")
    assert names_in(folder, ".swap")


def active_in(folder: Path) -> set[str]:
    """Of the segments the last one, which is not cleaned."""
    return {names_in(folder, ".log")[-1]}


@pytest.fixture(
    params=[
        "while it cleaned",
        "before it took away",
        "while it took away",
        "with what it replaced",
    ]
)
def left(request: pytest.FixtureRequest, killed: Killed) -> Path:
    folder: Path = killed.folders[request.param]
    return folder


def test_what_a_killed_broker_was_cleaning_is_served_and_nothing_is_quarantined(
    killed: Killed, left: Path
) -> None:
    server = ServedFolder(left, settings=OURS)
    with server.running() as client:
        assert fetch_all(client) == killed.stored
        assert client.get_server_info().quarantined_partitions == ()
        client.commit(GROUP, {TopicPartition("orders", 0): 5_000_000})
    folder = left / f"{OFFSETS_TOPIC}-{PARTITION}"
    assert not [*folder.glob("*.cleaned"), *folder.glob("*.swap")]
    with server.running() as client:
        assert client.fetch(GROUP)[TopicPartition("orders", 0)].offset == 5_000_000
        assert client.get_server_info().quarantined_partitions == ()


def test_from_then_on_a_segment_that_is_lost_is_found(left: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    subprocess.run(["cp", "-a", "--sparse=always", left, folder], check=True)
    server = ServedFolder(folder, settings=OURS)
    with server.running() as client:
        for number in range(300):
            where = TopicPartition("orders", number % 7)
            client.commit(GROUP, {where: OffsetToCommit(number, metadata="m" * 60)})
    remove(segment_files(folder / f"{OFFSETS_TOPIC}-{PARTITION}", place=1))
    with server.running() as client:
        assert client.get_server_info().quarantined_partitions == (PARTITION,)


def segment_files(folder: Path, *, place: int) -> Iterable[Path]:
    base = names_in(folder, ".log")[place].removesuffix(".log")
    return list(folder.glob(f"{base}.*"))


def remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink()

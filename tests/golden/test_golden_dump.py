"""Our dump equals what Kafka's own `DumpLogSegments --offsets-decoder --deep-iteration` prints.

`kafka-4.1.1` was written by a broker. `kafka-4.1.1-dump` was written by our encoder, with what the
broker's folder lacks, and printed by Kafka's tool: 0 every codec; 1 headers, a delete horizon, an
emptied batch, log append time, sequences that wrap, control records; 2 keys and values that do not
decode, or hardly; 3 members of a consumer group with odd bytes; 4 a torn batch; 5 a wrong
checksum; 6 nothing; 7 a torn header; 8 every record type; 9 two segments.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from offsetd_coordinator.offline.log_dump import dump_log
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import LogView

GOLDEN = Path(__file__).parent
BROKER = GOLDEN / "kafka-4.1.1"
ENCODER = GOLDEN / "kafka-4.1.1-dump"

# Why bytes do not decode is said in our own words.
REASON = re.compile(r"(?<= buffer due to: ).*")


def partitions(dump: Path) -> dict[str, list[str]]:
    """The lines of each partition; `# <folder>` starts one."""
    lines: dict[str, list[str]] = {}
    current: list[str] = []
    for line in dump.read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        if line.startswith("# "):
            current = lines.setdefault(line.removeprefix("# "), [])
        else:
            current.append(line)
    return lines


def dumped(folder: Path) -> Iterator[str]:
    topic_partition = TopicPartition.of_folder(folder.name)
    assert topic_partition is not None
    log = LogView(topic_partition=topic_partition, folder=folder, recovery_point=None)
    return dump_log(OsFiles(), log)


@pytest.mark.parametrize(("name", "lines"), partitions(BROKER / "dump.txt").items())
def test_the_dump_of_a_brokers_folder_is_kafkas_line_for_line(name: str, lines: list[str]) -> None:
    assert list(dumped(BROKER / "data" / name)) == lines


def test_every_partition_of_the_brokers_folder_is_compared() -> None:
    folders = {path.name for path in (BROKER / "data").iterdir() if path.is_dir()}
    assert partitions(BROKER / "dump.txt").keys() == folders


@pytest.mark.parametrize(("name", "lines"), partitions(ENCODER / "dump.txt").items())
def test_the_dump_of_what_a_broker_seldom_writes_is_kafkas_too(name: str, lines: list[str]) -> None:
    ours = [REASON.sub("…", line) for line in dumped(ENCODER / name)]
    assert ours == [REASON.sub("…", line) for line in lines]

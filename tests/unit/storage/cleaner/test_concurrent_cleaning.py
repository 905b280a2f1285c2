"""Readers, an appender, a flusher and a cleaner at the same time, on files of the system."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import CONFIG, put, replayed
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_log
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.files import OsFiles
from partition_logs import created

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.log.partition_log import PartitionLog

ROUNDS = 25
KEYS = "abcdefgh"


def read_all(log: PartitionLog) -> dict[bytes, bytes]:
    return replayed(b"".join(buffer[:end].tobytes() for buffer, end in log.read_chunks(300)))


@pytest.mark.slow
def test_whoever_reads_while_a_log_is_cleaned_sees_no_less_than_was_written_before(
    tmp_path: Path,
) -> None:
    files = OsFiles()
    config = attrs.evolve(CONFIG, segment_bytes_max=600)
    log = created(files, tmp_path / "__consumer_offsets-7", config=config)
    written: dict[bytes, int] = {}  # Of each key, the offset of the last value in the file.
    finished = threading.Event()
    failures: list[str] = []
    reads = [0]

    def read_on() -> None:
        while not finished.is_set() or not reads[0]:
            floor = dict(written)
            seen = read_all(log)
            reads[0] += 1
            stale = [
                key
                for key, offset in floor.items()
                if key not in seen or int(seen[key][1:]) < offset
            ]
            if stale:
                failures.append(f"{stale} of {seen} are older than {floor}")
                return

    readers = ThreadPoolExecutor(2)
    offset_map = OffsetMap(
        100 * SLOT_BYTES, load_factor=1.0, hash_key=bytes(16), bitmap_bytes_max=1 << 10
    )
    tools = CleanerTools(files=files, offset_map=offset_map, clock=ManualClock())
    first_dirty = 0
    reading = [readers.submit(read_on) for _ in range(2)]
    try:
        for _ in range(ROUNDS):
            for letter in KEYS * 3:
                put(log, letter, f"{letter}{log.offset_next}")
            log.write()
            for back, letter in enumerate(reversed(KEYS), start=1):
                written[letter.encode()] = log.offset_next - back
            log.sync()
            first_uncleanable = log.segments[-1].base_offset
            report = clean_log(
                log, tools, first_dirty=first_dirty, first_uncleanable=first_uncleanable
            )
            first_dirty = report.offset_next
    finally:
        finished.set()
        readers.shutdown()
    for each in reading:
        each.result()  # Raises what it raised.
    assert not failures
    assert {int(value[1:]) for value in read_all(log).values()} == set(written.values())
    assert len(log.segments) < 8
    log.close()

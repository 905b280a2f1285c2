"""`offsetd.last-up`: read as it was written; where it is damaged, a grace may be going on."""

from __future__ import annotations

from pathlib import Path

from offsetd_coordinator.expiry.expiry_guard import grace_at_start_ms
from offsetd_coordinator.expiry.uptime_marker import (
    LAST_UP_NAME,
    UNREADABLE,
    UptimeMarker,
    read_marker,
    write_marker,
)
from offsetd_storage.disk.simulated_files import SimulatedFiles

FOLDER = Path("/data")
LAST_UP = UptimeMarker(up_ms=1_700_000_000_000, grace_until_ms=1_700_000_000_001)


def written() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    files.sync_folder(FOLDER.parent)
    write_marker(files, FOLDER, LAST_UP)
    return files


def test_it_reads_back_after_a_power_cut() -> None:
    assert read_marker(written().power_cut(), FOLDER) == LAST_UP


def test_a_folder_may_have_none() -> None:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    assert read_marker(files, FOLDER) is None


def test_of_what_is_damaged_in_any_bit_or_cut_it_is_not_known_what_grace_it_had() -> None:
    files = written()
    content = files.read_bytes(FOLDER / LAST_UP_NAME)
    damaged = [content[:size] for size in range(len(content))]
    damaged += [
        content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        for at in range(len(content))
        for bit in range(8)
    ]
    for each in damaged:
        files.put_durable(FOLDER / LAST_UP_NAME, each)
        found = read_marker(files, FOLDER)
        assert found == UNREADABLE
        assert grace_at_start_ms(now_ms=9, newest_record_ms=8, last_up=found, grace_ms=5) == 5

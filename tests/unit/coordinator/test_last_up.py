"""`offsetd.last-up`: read as it was written, and worth nothing where it is damaged."""

from __future__ import annotations

from pathlib import Path

from offsetd_coordinator.last_up import LAST_UP_NAME, LastUp, read_last_up, write_last_up
from offsetd_storage.simulated_files import SimulatedFiles

FOLDER = Path("/data")
LAST_UP = LastUp(up_ms=1_700_000_000_000, grace_until_ms=1_700_000_000_001)


def written() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    files.sync_folder(FOLDER.parent)
    write_last_up(files, FOLDER, LAST_UP)
    return files


def test_it_reads_back_after_a_power_cut() -> None:
    assert read_last_up(written().power_cut(), FOLDER) == LAST_UP


def test_a_folder_may_have_none() -> None:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    assert read_last_up(files, FOLDER) is None


def test_what_is_damaged_in_any_bit_or_cut_says_nothing() -> None:
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
        assert read_last_up(files, FOLDER) is None

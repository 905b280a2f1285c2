"""A folder with one file of a newer version: the start is refused, and no byte has changed."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import pytest
from log_stores import FOLDER, P1, opened, tree
from newer_formats import NEWER_FILES
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.expiry.uptime_marker import UptimeMarker, write_marker
from offsetd_coordinator.server_folder import open_store
from offsetd_storage.clock import ManualClock, SteadyClock
from offsetd_storage.errors import NewerFormat
from offsetd_storage.folder.checkpoint_files import write_offset_checkpoint
from partition_logs import NOW_MS
from promised import promised_by
from recovered_folders import filled, log_path, overwrite

if TYPE_CHECKING:
    from offsetd_storage.disk.simulated_files import SimulatedFiles

promised = promised_by("docs/upgrading.md")
SETTINGS = Settings(data_dir=str(FOLDER), offsets_topic_num_partitions=3)
CHECKPOINTS = [name for name in NEWER_FILES if name.endswith("-checkpoint") and "/" not in name]
CLOCK = SteadyClock(ManualClock(NOW_MS))


def folder_with_every_file() -> SimulatedFiles:
    """A stopped server's folder, with a damaged partition and a raised log start."""
    files, _ = filled(closed=True)
    overwrite(files, log_path(P1), 170, b"rot")
    store = opened(files)
    assert store.quarantined.keys() == {P1}
    store.close()
    opened(files).close()  # Now both files of the journal have a header.
    for name in ("log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
        write_offset_checkpoint(files, FOLDER / name, {})
    write_marker(files, FOLDER, UptimeMarker(up_ms=1, grace_until_ms=2))
    return files.kill()


def refused(files: SimulatedFiles, name: str) -> str:
    """The error of a start on the folder with a newer file of that name. Nothing has changed."""
    newer = NEWER_FILES[name](files.read_bytes(FOLDER / name))
    files.put_durable(FOLDER / name, newer)
    untouched = tree(files)
    with pytest.raises(NewerFormat) as caught:
        open_store(SETTINGS, files=files, clock=CLOCK, random=Random(1), threads=1)
    assert tree(files) == untouched
    return str(caught.value)


@promised(
    "A version that meets a newer file refuses to start.",
    "The error names the file, its version and the version that it knows",
    "and not one byte of the folder is changed.",
)
@pytest.mark.parametrize("name", NEWER_FILES)
def test_a_newer_file_is_refused_untouched_and_named_with_both_versions(name: str) -> None:
    told = refused(folder_with_every_file(), name)
    assert name.rpartition("/")[2] in told
    assert re.search(r" has format \d+, but this version of offsetd knows \d+;", told)
    assert "docs/upgrading.md" in told


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_folder_with_a_newer_checkpoint_is_not_even_locked(name: str) -> None:
    files = folder_with_every_file()
    files.unlink(FOLDER / ".lock")
    refused(files, name)


def test_the_same_folder_opens_if_nothing_in_it_is_newer() -> None:
    files = folder_with_every_file()
    for name in NEWER_FILES:
        assert files.exists(FOLDER / name), name
    store = open_store(SETTINGS, files=files, clock=CLOCK, random=Random(1), threads=1)
    store.abandon()

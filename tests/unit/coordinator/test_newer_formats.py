"""A folder with one file of a newer version: the start is refused, and no byte has changed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from log_stores import FOLDER, P1, opened, tree
from newer_formats import NEWER_FILES
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.expiry.uptime_marker import LastUp, write_last_up
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
    write_last_up(files, FOLDER, LastUp(up_ms=1, grace_until_ms=2))
    return files.kill()


@promised(
    "A version that meets a newer file refuses to start.",
    "The error names the file, its version and the version that it knows",
    "and not one byte of the folder is changed.",
)
@pytest.mark.parametrize("name", NEWER_FILES)
def test_a_newer_file_is_refused_untouched_and_named_with_both_versions(name: str) -> None:
    files = folder_with_every_file()
    path = FOLDER / name
    before = files.read_bytes(path)
    newer = NEWER_FILES[name](before)
    assert newer != before
    files.put_durable(path, newer)
    untouched = tree(files)
    settings = Settings(data_dir=str(FOLDER), offsets_topic_num_partitions=3)
    with pytest.raises(NewerFormat) as caught:
        open_store(settings, files=files, clock=CLOCK, random=Random(1), threads=1)
    assert tree(files) == untouched
    told = str(caught.value)
    assert path.name in told
    assert "has format" in told
    assert "but this version of offsetd knows" in told
    assert "docs/upgrading.md" in told


def test_the_same_folder_opens_if_nothing_in_it_is_newer() -> None:
    files = folder_with_every_file()
    for name in NEWER_FILES:
        assert files.exists(FOLDER / name), name
    settings = Settings(data_dir=str(FOLDER), offsets_topic_num_partitions=3)
    store = open_store(settings, files=files, clock=CLOCK, random=Random(1), threads=1)
    store.abandon()

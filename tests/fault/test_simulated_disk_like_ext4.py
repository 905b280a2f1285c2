"""The simulated disk allows what a real file system does when power or fsync fails."""

from __future__ import annotations

import errno
from itertools import compress, product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from ext4_volumes import Volume, mounted_ext4
from offsetd_storage.disk.files import Files, OsFiles
from offsetd_storage.disk.simulated_disk import Content, FileNode, FolderNode, Write
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 4096
SECTOR = 512
STEPS_MAX = 25

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volume]:
    with mounted_ext4(tmp_path_factory.mktemp("volume")) as mounted:
        yield mounted


def contents(files: Files, folder: Path) -> dict[str, bytes]:
    """Every file in a folder."""
    return {name: files.read_bytes(folder / name) for name in files.list_folder(folder)}


def live(files: Files, folder: Path, random: Random) -> None:
    """One random step in a folder; the same for the same random."""
    names = files.list_folder(folder)
    step = random.choice(["write", "write", "write", "sync", "rename", "unlink", "folder"])
    path = folder / random.choice("abc")
    if step == "folder":
        files.sync_folder(folder)
    elif step == "write" or path.name not in names:
        file = files.open(path, create=True)
        file.pwrite([random.randbytes(random.choice([10, 600, 5000]))], random.randrange(6000))
        file.close()
    elif step == "sync":
        file = files.open(path)
        random.choice([file.sync, file.datasync])()
        file.close()
    elif step == "unlink":
        files.unlink(path)
    else:
        files.rename(path, folder / random.choice("abc"))


def explained(content: bytes, file: FileNode) -> bool:
    """Whether a crash may leave a file with this content: sector by sector, as any may be lost."""
    writes = [change for _, change in file.pending if isinstance(change, Write)]
    assert len(writes) == len(file.pending), "this script does not truncate"
    lengths = {max(end, len(file.durable)) for one in writes for end in sector_ends(one)}
    if len(content) not in lengths | {len(file.durable)}:
        return False
    for start in range(0, len(content), SECTOR):
        stop = min(start + SECTOR, len(content))
        touching = [
            one for one in writes if one.position < stop and start < one.position + len(one.chunk)
        ]
        if content[start:stop] not in set(sector_outcomes(file, touching, start, stop)):
            return False
    return True


def sector_ends(write: Write) -> list[int]:
    """The lengths that a write may give its file, torn or not."""
    end = write.position + len(write.chunk)
    return [end, *range((write.position // SECTOR + 1) * SECTOR, end, SECTOR)]


def sector_outcomes(file: FileNode, writes: list[Write], start: int, stop: int) -> Iterator[bytes]:
    """What a sector may hold: any of the writes, in their order, over its durable bytes."""
    durable = file.durable.read(stop - start, start).ljust(stop - start, b"\0")
    for kept in product([False, True], repeat=len(writes)):
        content = Content(b"\0" * start + durable)
        for write in compress(writes, kept):
            write.apply(content)
        yield content.read(stop - start, start)


def possible(found: dict[str, bytes], folder: FolderNode) -> bool:
    """Whether a crash may leave a folder with these files."""
    changes = [change for _, change in folder.pending]
    for kept in product([False, True], repeat=len(changes)):
        entries = folder.durable.copy()
        for change in compress(changes, kept):
            change.apply(entries)
        if entries.keys() == found.keys() and all(
            isinstance(node, FileNode) and explained(found[name], node)
            for name, node in entries.items()
        ):
            return True
    return False


@pytest.mark.parametrize("seed", range(25))
def test_what_a_power_cut_leaves_on_ext4_is_possible_in_the_simulation(
    volume: Volume, seed: int
) -> None:
    print(f"seed {seed}")
    real, simulated = OsFiles(), SimulatedFiles()
    folder = volume.folder / f"seed-{seed}"
    real.make_folder(folder)
    real.sync_folder(volume.folder)
    simulated.put_durable(folder / "a", b"")
    real.open(folder / "a", create=True).close()
    real.sync_folder(folder)
    randoms = Random(seed), Random(seed)
    for _ in range(Random(seed).randrange(1, STEPS_MAX)):
        live(real, folder, randoms[0])
        live(simulated, folder, randoms[1])
        assert contents(real, folder) == contents(simulated, folder)
    volume.cut_power()
    assert possible(contents(real, folder), simulated._tree.folder(folder))


def test_what_no_power_cut_leaves_is_not_possible() -> None:
    disk = SimulatedFiles()
    disk.put_durable(Path("/folder/a"), b"o" * 2 * SECTOR)
    file = disk.open(Path("/folder/a"))
    file.pwrite([b"n" * 2 * SECTOR], 0)
    folder = disk._tree.folder(Path("/folder"))
    old, new = b"o" * SECTOR, b"n" * SECTOR
    for left in [old + old, old + new, new + old, new + new]:
        assert possible({"a": left}, folder)
    assert not possible({"a": b"no" * SECTOR}, folder)
    assert not possible({"a": old}, folder)
    assert not possible({}, folder)
    file.sync()
    assert not possible({"a": old + new}, folder)


def blocks_after_a_failed_sync(
    files: Files, path: Path, blocks: list[bytes], before_sync: Callable[[], None]
) -> list[bytes]:
    """Writes blocks, sees the sync fail and a later one succeed, and reads what the disk has."""
    file = files.open(path, create=True)
    file.datasync()
    for number, block in enumerate(blocks):
        file.pwrite([block], number * BLOCK)
    before_sync()
    with pytest.raises(OSError, match=f"{errno.ENOSPC}|{errno.EIO}"):
        file.datasync()
    for _ in range(10):
        try:
            file.datasync()
            break
        except OSError:
            continue
    else:
        pytest.fail("no retried sync succeeded: this kernel is better than the one modelled")
    cached = [file.pread(BLOCK, number * BLOCK) for number in range(len(blocks))]
    assert cached == blocks, "the page cache shows everything, after the failure too"
    file.drop_cache()
    assert file.size() == len(blocks) * BLOCK, "the length is kept"
    on_disk = [file.pread(BLOCK, number * BLOCK) for number in range(len(blocks))]
    file.close()
    return on_disk


def test_a_failed_sync_loses_writes_on_ext4_as_it_does_in_the_simulation(tmp_path: Path) -> None:
    blocks = [Random(number).randbytes(BLOCK) for number in range(1600)]
    with mounted_ext4(tmp_path, disk_bytes=4 << 20) as volume:
        on_ext4 = blocks_after_a_failed_sync(
            OsFiles(), volume.folder / "file", blocks, lambda: None
        )
    disk = SimulatedFiles()

    def fail_once() -> None:
        fault = Fault(errno=errno.ENOSPC, kind=OperationKind.SYNC, nth=1, synced_writes=900)
        disk.faults = [fault]

    simulated = blocks_after_a_failed_sync(disk, Path("/file"), blocks, fail_once)
    for on_disk in (on_ext4, simulated):
        lost = [number for number, block in enumerate(blocks) if on_disk[number] != block]
        assert lost, "a sync that failed and then succeeded has lost writes"
        zeros = [number for number in lost if not any(on_disk[number])]
        assert len(zeros) >= len(lost) - 1  # One may be torn.

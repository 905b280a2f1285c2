"""What a power cut can leave: exactly the states that the rules allow, each once."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import attrs
import pytest
from offsetd_storage.disk.simulated_files import SimulatedFiles
from simulated_disks import FOLDER, A, B, contents, disk_with, write

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/")
SECTOR = 512
STEPS = ["make", "write", "write", "truncate", "sync", "rename", "unlink", "names", "folder"]
Image: TypeAlias = "frozenset[tuple[str, bytes | None]]"  # Every path; None for a folder.


def image(disk: SimulatedFiles, folder: Path = ROOT) -> Image:
    """Everything on a disk."""
    found: set[tuple[str, bytes | None]] = set()
    for name in disk.list_folder(folder):
        path = folder / name
        if disk.is_folder(path):
            found |= {(str(path), None)} | image(disk, path)
        else:
            found.add((str(path), disk.read_bytes(path)))
    return frozenset(found)


def crashes(disk: SimulatedFiles, samples: int = 0, seed: int = 1) -> list[SimulatedFiles]:
    """All states with up to ten changes pending, and `samples` others."""
    random = Random(seed)
    return list(disk.crash_states(exhaustive_pending_max=10, samples=samples, random=random))


def left_of(disk: SimulatedFiles, samples: int = 0) -> list[bytes]:
    """What is left of A."""
    return [state.read_bytes(A) for state in crashes(disk, samples)]


# Every subset: judged by a second, slower model, which keeps a diary and plays it from the start.


@attrs.frozen
class Done:
    """An entry of the diary: what was done to a file, or to the names of a folder."""

    what: str
    subject: int  # The file or folder, by the order of making.
    name: str = ""
    new_name: str = ""
    named: int = 0
    position: int = 0
    chunk: bytes = b""


class Diary:
    """Does random things to a disk, and knows from its notes what may be left of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedFiles()
        self.entries: list[Done] = []
        self.names: dict[int, dict[str, int]] = {0: {}}
        self.paths: dict[int, Path] = {0: ROOT}
        self.number = 0

    def live(self) -> None:
        """One random step."""
        folder = self.random.choice(list(self.paths))
        names, path = self.names[folder], self.paths[folder]
        files = [name for name, named in names.items() if named not in self.names]
        step = self.random.choice(STEPS)
        name = self.random.choice(files) if files else ""
        if step == "names":
            self.disk.sync_folder(path)
            self.entries.append(Done("sync", folder))
        elif step == "make" and len(free := sorted(set("abcd") - set(names))):
            self.make(folder, free[0], is_folder=False)
        elif step == "folder" and folder == 0 and "x" not in names:
            self.make(folder, "x", is_folder=True)
        elif name and step in ("rename", "unlink"):
            self.change_name(folder, name, step)
        elif name and step in ("write", "truncate", "sync"):
            self.change_file(path / name, names[name], step)

    def make(self, folder: int, name: str, *, is_folder: bool) -> None:
        self.number += 1
        path = self.paths[folder] / name
        if is_folder:
            self.disk.make_folder(path)
            self.names[self.number], self.paths[self.number] = {}, path
        else:
            self.disk.open(path, create=True).close()
        self.names[folder][name] = self.number
        self.entries.append(Done("add", folder, name, named=self.number))

    def change_name(self, folder: int, name: str, step: str) -> None:
        names, path = self.names[folder], self.paths[folder]
        named = names.pop(name)
        new_name = self.random.choice("abcd")
        if step == "unlink":
            self.disk.unlink(path / name)
        else:
            self.disk.rename(path / name, path / new_name)
            names[new_name] = named
        self.entries.append(Done(step, folder, name, new_name, named))

    def change_file(self, path: Path, file: int, step: str) -> None:
        position, chunk = self.random.randrange(9), self.random.randbytes(3)
        opened = self.disk.open(path)
        if step == "truncate":
            opened.truncate(position)
        elif step == "sync":
            opened.datasync()
        else:
            opened.pwrite([chunk], position)
        self.entries.append(Done(step, file, position=position, chunk=chunk))

    def pending(self) -> list[int]:
        """The entries that no later sync of the same file or folder made durable."""
        synced: set[int] = set()
        pending: list[int] = []
        for place in reversed(range(len(self.entries))):
            entry = self.entries[place]
            if entry.what == "sync":
                synced.add(entry.subject)
            elif entry.subject not in synced:
                pending.append(place)
        return pending

    def left(self, lost: set[int]) -> Image:
        """What is left when these entries are lost."""
        files: dict[int, bytes] = {}
        folders: dict[int, dict[str, int]] = {}
        for place, entry in enumerate(self.entries):
            names = folders.setdefault(entry.subject, {})
            if place in lost or entry.what == "sync":
                continue
            if entry.what == "add":
                names.setdefault(entry.name, entry.named)
            elif entry.what == "write":
                old = files.get(entry.subject, b"").ljust(entry.position, b"\0")
                end = entry.position + len(entry.chunk)
                files[entry.subject] = old[: entry.position] + entry.chunk + old[end:]
            elif entry.what == "truncate":
                old = files.get(entry.subject, b"")
                files[entry.subject] = old[: entry.position].ljust(entry.position, b"\0")
            elif names.get(entry.name) == entry.named:
                del names[entry.name]
                if entry.what == "rename":
                    names[entry.new_name] = entry.named
        return frozenset(self.walk(files, folders, 0, ROOT))

    def walk(
        self, files: dict[int, bytes], folders: dict[int, dict[str, int]], folder: int, path: Path
    ) -> Iterator[tuple[str, bytes | None]]:
        for name, named in folders.get(folder, {}).items():
            if named in self.names:
                yield str(path / name), None
                yield from self.walk(files, folders, named, path / name)
            else:
                yield str(path / name), files.get(named, b"")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(80))
def test_every_subset_of_what_is_pending_survives_once_and_nothing_else(seed: int) -> None:
    print(f"seed {seed}")
    diary = Diary(seed)
    for _ in range(40):
        diary.live()
        pending = diary.pending()
        if len(pending) > 7:
            diary.disk.sync_folder(ROOT)
            diary.entries.append(Done("sync", 0))
            continue
        expected = {
            diary.left(set(lost))
            for count in range(len(pending) + 1)
            for lost in itertools.combinations(pending, count)
        }
        found = [image(state) for state in crashes(diary.disk)]
        assert Counter(found) == Counter(expected)
        assert found[0] == diary.left(set(pending))
        assert image(diary.disk) == diary.left(set())
        assert diary.left(set()) in found[:2]


# Torn writes


@pytest.mark.parametrize(
    ("old", "position", "new", "pieces"),
    [
        # A write inside one sector is there or not.
        (b"o" * 600, 10, b"n" * 40, []),
        (b"o" * 2000, 512, b"n" * 512, []),
        # Whole sectors, overwritten: some first ones, or some last ones.
        (b"o" * 2048, 0, b"n" * 1536, [(0, 512), (0, 1024), (512, 1536), (1024, 1536)]),
        # Boundaries are the disk's, not the write's.
        (b"o" * 2048, 500, b"n" * 600, [(500, 512), (500, 1024), (512, 1100), (1024, 1100)]),
    ],
)
def test_an_overwrite_is_torn_at_the_boundaries_of_sectors(
    old: bytes, position: int, new: bytes, pieces: list[tuple[int, int]]
) -> None:
    disk = disk_with(old)
    write(disk, new, position)
    expected = [old, disk.read_bytes(A)]
    expected += [old[:start] + b"n" * (stop - start) + old[stop:] for start, stop in pieces]
    assert left_of(disk, samples=100) == expected


def test_an_append_is_torn_with_the_length_grown_or_not() -> None:
    disk = disk_with(b"o" * 400)
    write(disk, b"n" * 900, 400)
    assert left_of(disk, samples=100) == [
        b"o" * 400,
        b"o" * 400 + b"n" * 900,
        b"o" * 400 + b"n" * 112,  # The first sectors.
        b"o" * 400 + b"n" * 624,
        b"o" * 400 + b"\0" * 112 + b"n" * 788,  # The last ones: the others read as zeros.
        b"o" * 400 + b"\0" * 624 + b"n" * 276,
        b"o" * 400 + b"\0" * 900,  # The length alone.
    ]


def test_the_size_of_a_sector_is_the_disks() -> None:
    disk = SimulatedFiles(sector_bytes=4)
    disk.put_durable(A, b"oooooooo")
    write(disk, b"nnnnnn", 1)
    assert sorted(left_of(disk, samples=9)) == sorted(
        [b"oooooooo", b"onnnnnno", b"onnnoooo", b"oooonnno"]
    )


def test_each_tear_meets_every_subset_of_the_other_changes() -> None:
    disk = disk_with(b"o" * 1024)
    disk.put_durable(B, b"0")
    write(disk, b"n" * 1024)
    write(disk, b"1", path=B)
    write(disk, b"2", path=B)
    of_a = [b"o" * 1024, b"n" * 1024, b"n" * 512 + b"o" * 512, b"o" * 512 + b"n" * 512]
    found = [(state.read_bytes(A), state.read_bytes(B)) for state in crashes(disk, samples=999)]
    assert Counter(found) == Counter(itertools.product(of_a, [b"0", b"1", b"2"]))


def test_tears_are_counted_against_the_samples_and_subsets_are_not() -> None:
    disk = disk_with(b"")
    write(disk, b"n" * SECTOR * 100)
    found = left_of(disk, samples=10)
    assert found[:2] == [b"", b"n" * SECTOR * 100]
    assert len(found) == 12
    assert len(left_of(disk, samples=1000)) == 2 + 2 * 99 + 1


def test_a_rename_is_never_torn() -> None:
    disk = disk_with(b"new")
    disk.put_durable(B, b"old")
    disk.rename(A, B)
    assert [contents(state) for state in crashes(disk, samples=99)] == [
        {"a": b"new", "b": b"old"},
        {"b": b"new"},
    ]


def test_renames_with_no_sync_between_them_survive_in_any_combination() -> None:
    disk = disk_with(b"old", FOLDER / "0.log")
    disk.put_durable(FOLDER / "0.cleaned", b"new")
    disk.rename(FOLDER / "0.cleaned", FOLDER / "0.swap")
    disk.rename(FOLDER / "0.log", FOLDER / "0.deleted")
    disk.rename(FOLDER / "0.swap", FOLDER / "0.log")
    found = [tuple(state.list_folder(FOLDER)) for state in crashes(disk)]
    assert Counter(found) == Counter(
        [
            ("0.cleaned", "0.log"),
            ("0.log", "0.swap"),
            ("0.log",),  # The third rename went over the old log.
            ("0.cleaned", "0.deleted"),  # Neither is taken for a log after this.
            ("0.deleted", "0.swap"),
            ("0.deleted", "0.log"),
        ]
    )


# Many changes


def busy_disk() -> SimulatedFiles:
    disk = disk_with(b"o" * 40 * SECTOR)
    for place in range(20):
        write(disk, b"n" * 2 * SECTOR, place * 2 * SECTOR)
    return disk


def test_with_many_changes_pending_the_states_are_sampled() -> None:
    disk = busy_disk()
    states = list(disk.crash_states(samples=300, random=Random(1)))
    found = [state.read_bytes(A) for state in states]
    assert found[:2] == [b"o" * 40 * SECTOR, b"n" * 40 * SECTOR]
    assert 200 < len(found) <= 302
    assert len(set(found)) == len(found)
    for content in found:
        sectors = {content[at : at + SECTOR] for at in range(0, len(content), SECTOR)}
        assert sectors <= {b"o" * SECTOR, b"n" * SECTOR}, "a sector is whole or not there"
    assert any(content[:SECTOR] != content[SECTOR : 2 * SECTOR] for content in found), "a torn one"


@pytest.mark.parametrize("older", [b"o", b"n"])
def test_samples_reach_every_subset_of_the_newest_changes(older: bytes) -> None:
    disk = busy_disk()
    states = disk.crash_states(exhaustive_pending_max=3, samples=400, random=Random(1))
    found = [state.read_bytes(A) for state in states]
    newest = {
        tuple(content[at * SECTOR : at * SECTOR + 1] for at in (34, 36, 38))
        for content in found
        if content.startswith(older * 34 * SECTOR)
    }
    assert newest == set(itertools.product([b"o", b"n"], repeat=3))


def test_the_same_seed_gives_the_same_states_and_another_seed_others() -> None:
    disk = busy_disk()
    first, again, other = (
        [state.read_bytes(A) for state in disk.crash_states(samples=50, random=Random(seed))]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("exhaustive_pending_max", [0, 1, 30])
def test_the_bound_decides_between_every_subset_and_samples(exhaustive_pending_max: int) -> None:
    disk = disk_with(b"oo")
    write(disk, b"n", 0)
    write(disk, b"n", 1)
    states = disk.crash_states(
        exhaustive_pending_max=exhaustive_pending_max, samples=0, random=Random(1)
    )
    found = [state.read_bytes(A) for state in states]
    assert found == [b"oo", b"nn"] + ([b"no", b"on"] if exhaustive_pending_max >= 2 else [])


# States stand alone


def test_equal_outcomes_come_once() -> None:
    disk = disk_with(b"same")
    disk.put_durable(B, b"same")
    write(disk, b"same")
    disk.rename(A, B)
    assert [contents(state) for state in crashes(disk, samples=9)] == [
        {"a": b"same", "b": b"same"},
        {"b": b"same"},
    ]


def test_with_nothing_pending_there_is_one_state() -> None:
    disk = disk_with(b"x", FOLDER / "x")
    states = crashes(disk, samples=100)
    assert [image(state) for state in states] == [image(disk)]
    assert [image(state) for state in crashes(SimulatedFiles(), samples=9)] == [frozenset()]


def test_after_a_crash_nothing_is_pending() -> None:
    disk = SimulatedFiles()
    disk.make_folder(FOLDER)
    write(disk, b"x" * 2000, path=FOLDER / "x")
    for state in crashes(disk, samples=100):
        assert [image(again) for again in crashes(state, samples=100)] == [image(state)]


def test_states_and_their_origin_do_not_see_each_others_changes() -> None:
    disk = disk_with(b"o" * 2000)
    disk.put_durable(B, b"shared")
    write(disk, b"n" * 2000)
    before = [contents(state) for state in crashes(disk, samples=100)]
    states = crashes(disk, samples=100)
    for number, state in enumerate(states):
        write(state, bytes([number]), path=A)
        write(state, bytes([number]), path=B)
        state.open(B).sync()
        state.unlink(A)
    assert [contents(state) for state in crashes(disk, samples=100)] == before
    for number, state in enumerate(states):
        assert contents(state) == {"b": bytes([number]) + b"hared"}


def test_the_states_are_those_of_the_moment_of_the_call() -> None:
    disk = disk_with(b"old")
    write(disk, b"new")
    states = disk.crash_states(samples=0, random=Random(1))
    disk.open(A).sync()
    disk.unlink(A)
    disk.sync_folder(ROOT)
    assert [contents(state) for state in states] == [{"a": b"old"}, {"a": b"new"}]


def test_a_crash_of_a_crash_loses_only_what_came_after() -> None:
    disk = disk_with(b"1")
    write(disk, b"2")
    for state in crashes(disk):
        kept = state.read_bytes(A)
        write(state, b"3")
        assert {again.read_bytes(A) for again in crashes(state)} == {kept, b"3"}

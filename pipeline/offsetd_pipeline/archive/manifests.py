"""What an archive consists of: its manifests, each made by one run, each naming that run's files.

Readers go by manifests alone. `_manifests/00000001.json` is the first; each names how far the
archive has come, so the newest says where the next run begins.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

from offsetd_pipeline.files import (
    LockedFile,
    create_file,
    file_bytes,
    file_names,
    make_folder,
    read_file,
    remove_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FORMAT_VERSION: Final = 1
MANIFESTS: Final = "_manifests"
RUNS: Final = "_runs"
"""What runs leave for themselves; of no use once they have ended."""
DAY: Final = "dt="
LOG_PARTITION: Final = "log_partition="
_LOCK: Final = "lock"
_DIGITS: Final = 8


class ArchiveError(Exception):
    """Why an archive cannot be written, or read."""


class ArchiveDamaged(ArchiveError):
    """Files of an archive are gone, or not what a run left."""


class ArchiveBusy(ArchiveError):
    """Another run writes to the archive."""


@attrs.frozen(kw_only=True)
class ArchivedFile:
    """A Parquet file; `path` is within the archive. Sorted by log offset.

    `earliest_ms`: the earliest timestamp in it.
    """

    path: str
    log_partition: int
    day: str | None
    record_count: int
    size_bytes: int
    first_log_offset: int
    last_log_offset: int
    earliest_ms: int | None


@attrs.frozen(kw_only=True)
class LogPosition:
    """How far the archive has come with a log partition: `log_offset` is the next to be read.

    `last_log_offset` and `last_timestamp_ms` are of the newest record below it, by which the log is
    known again. `latest_ms`: the latest timestamp of all below it.
    """

    log_offset: int
    log_start_offset: int
    last_log_offset: int | None = None
    last_timestamp_ms: int | None = None
    latest_ms: int | None = None


@attrs.frozen(kw_only=True)
class Gap:
    """Log offsets that the log no longer had when they were to be archived, or that were damaged.

    What was committed from `from_ms` (None: ever) until before `to_ms` may be missing; from then on
    the archive knows what is current.
    """

    log_partition: int
    begin_log_offset: int
    end_log_offset: int
    missing_count: int
    from_ms: int | None
    to_ms: int


@attrs.frozen(kw_only=True)
class DamagedBytes:
    """Bytes of a segment's file that hold no valid batch, and were passed over."""

    log_partition: int
    file: str
    position: int
    size_bytes: int
    reason: str


@attrs.frozen(kw_only=True)
class Manifest:
    """One run. `positions` are of all log partitions; files, gaps and damage of this run alone.

    `source` is the id of the folder, or of the broker's cluster. `offsets_partitions` None: nobody
    knows how many `__consumer_offsets` has.
    """

    number: int
    run_id: str
    time_ms: int
    source: str
    folders: tuple[str, ...]
    offsets_partitions: int | None
    positions: dict[int, LogPosition]
    files: tuple[ArchivedFile, ...]
    gaps: tuple[Gap, ...]
    damage: tuple[DamagedBytes, ...]

    @property
    def record_count(self) -> int:
        """Of all files."""
        return sum(each.record_count for each in self.files)

    @property
    def latest_ms(self) -> int | None:
        """The latest timestamp of all that was ever read."""
        times = (each.latest_ms for each in self.positions.values())
        return max((each for each in times if each is not None), default=None)

    def to_json(self) -> bytes:
        """As the file has it."""
        fields = {"format_version": FORMAT_VERSION, **attrs.asdict(self)}
        return json.dumps(fields, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, content: bytes) -> Manifest:
        """Raises ValueError, KeyError, TypeError for what is none."""
        fields: dict[str, Any] = json.loads(content)
        version = fields.pop("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(f"its format is {version}, this program knows {FORMAT_VERSION}")
        fields["folders"] = tuple(fields["folders"])
        fields["positions"] = {
            int(number): LogPosition(**each) for number, each in fields["positions"].items()
        }
        for name, made in _PARTS.items():
            fields[name] = tuple(made(**each) for each in fields[name])
        return cls(**fields)


_PARTS: Final[dict[str, Callable[..., Any]]] = {
    "files": ArchivedFile,
    "gaps": Gap,
    "damage": DamagedBytes,
}


@attrs.frozen
class ArchiveFolder:
    """An archive on a disk, or on a file system that is mounted like one."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other run writes meanwhile. Raises ArchiveBusy, OSError."""
        make_folder(self.path / MANIFESTS)
        try:
            lock = LockedFile(self.path / MANIFESTS / _LOCK)
        except BlockingIOError:
            raise ArchiveBusy(f"another run writes to {self.path}: wait for its end") from None
        try:
            yield
        finally:
            lock.close()

    def manifests(self) -> list[Manifest]:
        """All of them, the oldest first. Raises ArchiveDamaged, OSError."""
        folder = self.path / MANIFESTS
        names = [name for name in file_names(folder) if name.endswith(".json")]
        if names != [_name(number) for number in range(1, len(names) + 1)]:
            raise ArchiveDamaged(f"{folder} lacks manifests: it has {', '.join(names)}")
        return [self._manifest(folder / name) for name in names]

    def committed(self, manifest: Manifest) -> None:
        """The run counts. Raises ArchiveBusy where another one was first, OSError."""
        path = self.path / MANIFESTS / _name(manifest.number)
        try:
            create_file(path, manifest.to_json())
        except FileExistsError:
            raise ArchiveBusy(
                f"another run made {path} meanwhile: nothing of this one counts"
            ) from None

    def check_files(self, manifest: Manifest) -> None:
        """That its files are there as they were written. Raises ArchiveDamaged."""
        for each in manifest.files:
            size_bytes = file_bytes(self.path / each.path)
            if size_bytes != each.size_bytes:
                has = "is gone" if size_bytes is None else f"has {size_bytes} bytes"
                raise ArchiveDamaged(
                    f"{self.path / each.path} {has}; manifest {manifest.number} says"
                    f" {each.size_bytes} bytes"
                )

    def remove_orphans(self, manifests: list[Manifest]) -> int:
        """Removes what runs left that came to no manifest; returns how many files those were.

        Only where the archive is locked.
        """
        known = {file.path for manifest in manifests for file in manifest.files}
        orphans = [path for path in self._files_there() if path not in known]
        for path in orphans:
            remove_file(self.path / path)
        self.remove_run_files()
        return len(orphans)

    def remove_run_files(self) -> None:
        """What runs had for themselves, and manifests that were not whole."""
        for name in file_names(self.path / RUNS):
            remove_file(self.path / RUNS / name)
        for name in file_names(self.path / MANIFESTS):
            if name.endswith(".part"):
                remove_file(self.path / MANIFESTS / name)

    def _files_there(self) -> Iterator[str]:
        for day in _beginning_with(DAY, file_names(self.path)):
            for log in _beginning_with(LOG_PARTITION, file_names(self.path / day)):
                for name in file_names(self.path / day / log):
                    yield f"{day}/{log}/{name}"

    def _manifest(self, path: Path) -> Manifest:
        try:
            return Manifest.from_json(read_file(path))
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveDamaged(f"{path} is no manifest: {error}") from error


def _beginning_with(prefix: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(prefix)]


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}.json"

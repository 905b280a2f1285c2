"""The content of an archive: its manifests.

Each was made by one run, and names that run's files.

Readers use only files in manifests. `_manifests/00000001.json` is the first one. Each manifest has
the position of the archive, so the newest says where the next run begins.
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
"""The folder of temporary files of runs. It is of no use after they have ended."""
DAY: Final = "dt="
LOG_PARTITION: Final = "log_partition="
_LOCK: Final = "lock"
_DIGITS: Final = 8


class ArchiveError(Exception):
    """An archive cannot be written or read. The text says why."""


class ArchiveDamaged(ArchiveError):
    """Files of an archive are gone, or differ from what a run wrote."""


class ArchiveBusy(ArchiveError):
    """Another run writes to the archive."""


@attrs.frozen(kw_only=True)
class ArchivedFile:
    """A Parquet file, sorted by log offset; `path` is relative to the archive.

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
    """The position of the archive in a log partition: `log_offset` is the next one to read.

    `last_log_offset` and `last_timestamp_ms` are the log offset and the timestamp of the newest
    record below it. This record identifies the log. `latest_ms`: the latest timestamp of all
    records below it.
    """

    log_offset: int
    log_start_offset: int
    last_log_offset: int | None = None
    last_timestamp_ms: int | None = None
    latest_ms: int | None = None


@attrs.frozen(kw_only=True)
class Gap:
    """Log offsets whose records were removed or damaged before they were archived.

    Commits at or after `from_ms` (None stands for the beginning) and before `to_ms` may be missing.
    Since `to_ms` the archive has the current offsets.
    """

    log_partition: int
    begin_log_offset: int
    end_log_offset: int
    missing_count: int
    from_ms: int | None
    to_ms: int


@attrs.frozen(kw_only=True)
class DamagedBytes:
    """Bytes of a segment's file without a valid batch, which were skipped."""

    log_partition: int
    file: str
    position: int
    size_bytes: int
    reason: str


@attrs.frozen(kw_only=True)
class Manifest:
    """One run. `positions` has all log partitions; files, gaps and damage are those of this run.

    `source` is the id of the folder, or of the broker's cluster. `offsets_partitions` is the number
    of partitions of `__consumer_offsets`, or None if it is not known.
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
        """The records of all files."""
        return sum(each.record_count for each in self.files)

    @property
    def latest_ms(self) -> int | None:
        """The latest timestamp of all records ever read."""
        times = (each.latest_ms for each in self.positions.values())
        return max((each for each in times if each is not None), default=None)

    def to_json(self) -> bytes:
        """The content of the file."""
        fields = {"format_version": FORMAT_VERSION, **attrs.asdict(self)}
        return json.dumps(fields, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, content: bytes) -> Manifest:
        """Reads a file's content. Raises ValueError, KeyError, TypeError if it is invalid."""
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
    """An archive on a disk, or on a mounted file system."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs from writing. Raises ArchiveBusy, OSError."""
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
        """All manifests, the oldest first. Raises ArchiveDamaged, OSError."""
        folder = self.path / MANIFESTS
        names = [name for name in file_names(folder) if name.endswith(".json")]
        if names != [_name(number) for number in range(1, len(names) + 1)]:
            raise ArchiveDamaged(f"{folder} lacks manifests: it has {', '.join(names)}")
        return [self._manifest(folder / name) for name in names]

    def committed(self, manifest: Manifest) -> None:
        """Adds the run to the archive. Raises ArchiveBusy if another run was faster, OSError."""
        path = self.path / MANIFESTS / _name(manifest.number)
        try:
            create_file(path, manifest.to_json())
        except FileExistsError:
            raise ArchiveBusy(
                f"another run made {path} meanwhile: nothing of this one counts"
            ) from None

    def check_files(self, manifest: Manifest) -> None:
        """Checks that the files exist and are unchanged. Raises ArchiveDamaged."""
        for each in manifest.files:
            size_bytes = file_bytes(self.path / each.path)
            if size_bytes != each.size_bytes:
                has = "is gone" if size_bytes is None else f"has {size_bytes} bytes"
                raise ArchiveDamaged(
                    f"{self.path / each.path} {has}; manifest {manifest.number} says"
                    f" {each.size_bytes} bytes"
                )

    def remove_orphans(self, manifests: list[Manifest]) -> int:
        """Removes files of runs that did not finish; returns their number.

        The archive must be locked.
        """
        known = {file.path for manifest in manifests for file in manifest.files}
        orphans = [path for path in self._files_there() if path not in known]
        for path in orphans:
            remove_file(self.path / path)
        self.remove_run_files()
        return len(orphans)

    def remove_run_files(self) -> None:
        """Removes temporary files of runs, and incomplete manifests."""
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
            raise ArchiveDamaged(f"{path} is not a manifest: {error}") from error


def _beginning_with(prefix: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(prefix)]


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}.json"

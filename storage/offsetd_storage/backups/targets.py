"""Where backups are kept: a folder, or an object store through `fsspec`.

A target has objects with names such as `chunks/0a/0a1b…`. An object is there as a whole or not at
all, and is not changed once it is there.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from offsetd_storage.backups.backup_errors import BackupRefused, TargetFailed, WrongTarget
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import words_of
from offsetd_storage.folder.folder_format import PROPERTIES_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetd_storage.disk.files import Files

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+(?=://)", re.ASCII)
_FOLDER_SCHEMES: Final = frozenset(("file", "local"))
_NOTHING_KEPT: Final = {
    "memory": "nothing would be kept",
    "http": "nothing can be written there",
    "https": "nothing can be written there",
    "data": "nothing can be written there",
}
_UNFINISHED: Final = re.compile(r"(.+?)(\.[0-9a-f]{8})?\.unfinished", re.ASCII | re.DOTALL)
_PARTS: Final = ("chunks", "manifests", "running")


class PrivateOsFiles(OsFiles):
    """Makes files and folders that only their owner can read."""

    _file_mode = 0o600
    _folder_mode = 0o700


class TargetObject(NamedTuple):
    """An object's name, and its size."""

    name: str
    size_bytes: int


class Target(Protocol):
    """A place for backups. All methods raise TargetFailed. For one thread at a time."""

    address: str

    def put(self, name: str, content: bytes) -> None:
        """Makes or replaces an object in one step. It is there, durably, after `settle`."""

    def get(self, name: str) -> bytes | None:
        """An object's bytes; None if there is no such object."""

    def objects(self, prefix: str) -> Iterator[TargetObject]:
        """The objects whose names begin with a prefix that ends with `/`."""

    def remove(self, name: str) -> None:
        """Removes an object; there may be none."""

    def settle(self) -> None:
        """Makes durable what was put and removed before."""

    def complete(self, prefix: str, is_whole: Callable[[str, bytes], bool]) -> None:
        """Makes objects of puts that were broken off, if a name and its bytes are whole."""


def is_unfinished(name: str) -> bool:
    """Whether an object is what a put in a folder has begun, or has left."""
    return _UNFINISHED.fullmatch(name) is not None


def target_of(address: str) -> Target:
    """The target with this address: a path, or a URL such as `s3://bucket/prefix`.

    Raises WrongTarget for a URL of a kind that cannot be used, if its library is missing, for a
    file, and for a folder within a data folder: one lost disk would take both. TargetFailed if the
    library fails.
    """
    found = _SCHEME.match(address)
    scheme = "" if found is None else found[0]
    if scheme in _NOTHING_KEPT:
        raise WrongTarget(f"{address} is no target: {_NOTHING_KEPT[scheme]}")
    if scheme and scheme not in _FOLDER_SCHEMES:
        return ObjectStoreTarget(address)
    named = address.removeprefix(f"{scheme}://")
    if not named or named.startswith("~") or "://" in named:
        raise WrongTarget(f"{address!r} is no target: it is the path of a folder, or a URL")
    path, files = Path(named).absolute(), PrivateOsFiles()
    if files.exists(path) and not files.is_folder(path):
        raise WrongTarget(f"{path} is no target: it is not a folder")
    _refuse_servers_folder(files, path)
    return FolderTarget(files, path)


def check_target(address: str) -> None:
    """Raises WrongTarget if no backup can be written there until somebody acts.

    It changes nothing, and asks no object store. Raises TargetFailed if a library fails.
    """
    target = target_of(address)
    if isinstance(target, FolderTarget):
        target.check_writable()


def _refuse_servers_folder(files: Files, path: Path) -> None:
    for folder in (path, *path.parents):
        if files.exists(folder / PROPERTIES_NAME):
            raise WrongTarget(f"{path} is in the data folder {folder}: keep backups elsewhere")


def check_apart(target: Target, folder: Path) -> None:
    """Raises BackupRefused if a restore into this folder would change the target."""
    if isinstance(target, FolderTarget) and target.has(folder):
        raise BackupRefused(
            f"{folder} is in {target.address}, where the backups are: restore elsewhere"
        )


class FolderTarget:
    """A folder. An object is a file, complete and synced before it gets its name.

    `settle` syncs the files of many puts one after the other: so one commit of the file system's
    journal serves most of them, and other programs that sync wait less. Until then, a file has a
    name of its own: another backup may write the same chunk at the same time.
    """

    def __init__(self, files: Files, folder: Path) -> None:
        self.address = str(folder)
        self._files = files
        self._folder = folder
        self._suffix = f".{secrets.token_hex(4)}.unfinished"
        self._unnamed: dict[Path, Path] = {}  # What the files of puts will be named, in order.
        self._torn: dict[Path, list[Path]] = {}  # Files of broken-off puts, by that name.
        self._unsynced: set[Path] = set()  # Folders.

    def check_writable(self) -> None:
        """Raises WrongTarget if the folder cannot be made, or is not for this process to fill."""
        place = self._folder
        while not self._files.exists(place) and place.parent != place:
            place = place.parent
        parts = (place / each for each in _PARTS) if place == self._folder else ()
        for each in (place, *filter(self._files.exists, parts)):
            if not self._files.is_folder(each):
                raise WrongTarget(f"{self.address} cannot be used: {each} is not a folder")
            if not self._files.may_write(each):
                raise WrongTarget(
                    f"{self.address} cannot be written to: no permission in {each}, or a read-only"
                    " disk"
                )

    def has(self, path: Path) -> bool:
        """Whether a path is the folder, or lies within it; links are followed."""
        return path.resolve().is_relative_to(self._folder.resolve())

    def put(self, name: str, content: bytes) -> None:
        """See `Target.put`."""
        path = self._folder / name
        try:
            self._make_folder(path.parent)
            unfinished = self._unfinished(path)
            file = self._files.open(unfinished, create=True)
            try:
                file.truncate(0)
                file.pwrite([content], 0)
                file.begin_writeback(0, len(content))
            finally:
                file.close()
            self._unnamed[unfinished] = path
        except OSError as error:
            raise self._failed(error) from error

    def get(self, name: str) -> bytes | None:
        """See `Target.get`."""
        try:
            return self._files.read_bytes(self._folder / name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed(error) from error

    def objects(self, prefix: str) -> Iterator[TargetObject]:
        """See `Target.objects`. Files of puts that were broken off are among them."""
        try:
            yield from self._below(self._folder / prefix, prefix)
        except OSError as error:
            raise self._failed(error) from error

    def _below(self, folder: Path, prefix: str) -> Iterator[TargetObject]:
        if not self._files.is_folder(folder):
            return
        for name in self._files.list_folder(folder):
            path = folder / name
            if self._files.is_folder(path):
                yield from self._below(path, f"{prefix}{name}/")
                continue
            try:
                size_bytes = self._files.size(path)
            except FileNotFoundError:  # Removed since, or got its name.
                continue
            yield TargetObject(prefix + name, size_bytes)

    def remove(self, name: str) -> None:
        """See `Target.remove`."""
        path = self._folder / name
        unfinished = self._unfinished(path)  # Of a put before: `settle` must not name it.
        self._unnamed.pop(unfinished, None)
        try:
            for each in (unfinished, path):
                if self._files.exists(each):
                    self._files.unlink(each)
                    self._unsynced.add(path.parent)
        except OSError as error:
            raise self._failed(error) from error

    def settle(self) -> None:
        """See `Target.settle`."""
        try:
            for unfinished, path in self._unnamed.items():
                self._name(unfinished, path)
                self._unsynced.add(path.parent)
            for folder in self._unsynced:
                self._files.sync_folder(folder)
        except OSError as error:
            raise self._failed(error) from error
        self._unnamed.clear()
        self._unsynced.clear()

    def complete(self, prefix: str, is_whole: Callable[[str, bytes], bool]) -> None:
        """See `Target.complete`."""
        for each in list(self.objects(prefix)):
            found = _UNFINISHED.fullmatch(each.name)
            if found is None:
                continue
            path, content = self._folder / found[1], self.get(each.name)
            if content is not None and is_whole(found[1], content):
                self._unnamed[self._folder / each.name] = path
            else:
                self._torn.setdefault(path, []).append(self._folder / each.name)
        self.settle()

    def _name(self, unfinished: Path, path: Path) -> None:
        """Gives a file of a put its name, unless another backup has completed it already."""
        try:
            file = self._files.open(unfinished)
            try:
                file.sync()
            finally:
                file.close()
            self._files.rename(unfinished, path)
        except FileNotFoundError:
            if not self._files.exists(path):
                raise
        for each in self._torn.pop(path, ()):  # Even if it is being written: the object is there.
            with suppress(FileNotFoundError):
                self._files.unlink(each)

    def _unfinished(self, path: Path) -> Path:
        return path.with_name(path.name + self._suffix)

    def _make_folder(self, folder: Path) -> None:
        if self._files.is_folder(folder):
            return
        if folder.parent != folder:
            self._make_folder(folder.parent)
        self._files.make_folder(folder)
        self._unsynced.add(folder.parent)

    def _failed(self, error: OSError) -> TargetFailed:
        return TargetFailed(f"{self.address}: {words_of(error)}")


class ObjectStoreTarget:
    """A prefix of an object store that `fsspec` knows. A put of one object is one step there."""

    def __init__(self, address: str) -> None:
        """Raises WrongTarget without the library for the URL; TargetFailed if it fails."""
        self.address = address.rstrip("/")
        try:
            from fsspec import get_filesystem_class  # noqa: PLC0415  an extra
            from fsspec.core import url_to_fs  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise WrongTarget(
                f"{address}: fsspec is not installed: install offsetd with its extra `backup`"
            ) from error
        try:
            get_filesystem_class(self.address.partition("://")[0])
        except (ValueError, ImportError) as error:
            raise WrongTarget(f"{address}: {error}") from error
        try:
            self._store, self._root = url_to_fs(self.address, use_listings_cache=False)
        except Exception as error:
            raise self._failed(error) from error

    def put(self, name: str, content: bytes) -> None:
        """See `Target.put`."""
        try:
            self._store.pipe_file(self._path(name), content)
        except Exception as error:
            raise self._failed(error) from error

    def get(self, name: str) -> bytes | None:
        """See `Target.get`."""
        try:
            content: bytes = self._store.cat_file(self._path(name))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed(error) from error
        return content

    def objects(self, prefix: str) -> Iterator[TargetObject]:
        """See `Target.objects`."""
        try:
            found = self._store.find(self._path(prefix.rstrip("/")), detail=True)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._failed(error) from error
        for path in sorted(found):
            name = path.removeprefix(self._root).lstrip("/")
            if name.startswith(prefix):
                yield TargetObject(name, int(found[path]["size"]))

    def remove(self, name: str) -> None:
        """See `Target.remove`."""
        try:
            self._store.rm_file(self._path(name))
        except FileNotFoundError:
            pass
        except Exception as error:
            raise self._failed(error) from error

    def settle(self) -> None:
        """Does nothing: a put is durable when it returns."""

    def complete(self, prefix: str, is_whole: Callable[[str, bytes], bool]) -> None:
        """Does nothing: a put that is broken off leaves nothing."""

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _failed(self, error: Exception) -> TargetFailed:
        return TargetFailed(f"{self.address}: {error or type(error).__name__}")

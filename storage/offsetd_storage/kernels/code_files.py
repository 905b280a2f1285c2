"""Files of machine code, in a folder that is named by all that the code depends on.

The process runs this code, so it reads the files only from folders that nobody else can write to. A
file carries the checksum of its content, and a rename puts it in place: any number of processes may
write the same file at the same time.

Machine code is not part of the data folder: this module, unlike the rest of the engine, asks the
operating system directly.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.resources
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable

_MAGIC: Final = b"offsetd kernel 1\n"
_CHECKSUM_BYTES: Final = 32


def code_key(environment: tuple[object, ...], *packages: str, source: str = "") -> str:
    """A key for machine code: it depends on the packages' sources, `source` and `environment`."""
    digest = hashlib.sha256(repr(environment).encode())
    for package in packages:
        _hash_package(package, digest)
    digest.update(source.encode())
    return digest.hexdigest()[:32]


def kernels_package(module: str) -> str:
    """The package `kernels` that a module lies in, at any depth; an empty text if there is none."""
    package, found, _ = module.partition(".kernels.")
    return f"{package}.kernels" if found else ""


def code_folders(key: str) -> tuple[Path, ...]:
    """The folders that may hold the files of a key, best first."""
    return tuple(root / key for root in _roots())


def read_code(folders: Iterable[Path], name: str) -> bytes | None:
    """The content of a file; None if no trusted folder has the whole file."""
    for folder in folders:
        with contextlib.suppress(OSError):
            if not _is_trusted(folder):
                continue
            checksum, content = _split((folder / name).read_bytes())
            if hashlib.sha256(content).digest() == checksum:
                return content
    return None


def write_code(folders: Iterable[Path], name: str, content: bytes) -> bool:
    """Writes the file to the first writable folder. Returns False if there is none."""
    for folder in folders:
        with contextlib.suppress(OSError):
            _make_private(folder)
            if _is_trusted(folder):
                _replace(folder / name, content)
                return True
    return False


def _roots() -> Iterator[Path]:
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if cache_home.is_absolute():  # The XDG specification: a relative path must be ignored.
        yield cache_home / "offsetd" / "kernels"
    else:
        with contextlib.suppress(RuntimeError):  # No home folder.
            yield Path.home() / ".cache" / "offsetd" / "kernels"
    yield Path(tempfile.gettempdir(), f"offsetd-kernels-{os.geteuid()}")


def _hash_package(package: str, digest: Any) -> None:
    _hash_folder(package, importlib.resources.files(package), digest)


def _hash_folder(package: str, folder: Traversable, digest: Any) -> None:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.name.endswith(".py"):
            source = entry.read_bytes()
            digest.update(f"{package} {entry.name} {len(source)}\n".encode())
            digest.update(source)
        elif entry.is_dir() and entry.name != "__pycache__":
            _hash_folder(f"{package}.{entry.name}", entry, digest)


def _make_private(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    folder.mkdir(exist_ok=True, mode=0o755)


def _is_trusted(folder: Path) -> bool:
    """Whether only we, or root, can write to `folder` and to its parent."""
    for each in (folder, folder.parent):
        status = each.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            return False
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def _split(framed: bytes) -> tuple[bytes, bytes]:
    start = len(_MAGIC) + _CHECKSUM_BYTES
    if not framed.startswith(_MAGIC) or len(framed) < start:
        return b"", b""
    return framed[len(_MAGIC) : start], framed[start:]


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(content).digest() + content)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise

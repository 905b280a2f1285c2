"""Compiled kernels on disk.

Numba's own cache does not notice that a kernel called from another file has changed, trusts
damaged files, and is one for the whole process. Here a folder is named by a hash of everything
the machine code depends on, a file carries the checksum of its content, and a rename puts it in
place, so that any number of processes may warm at once.

The compiled code is not part of the data folder: this module, unlike the rest of the engine, asks
the operating system directly. What it loads is run, so it loads only from folders that nobody
else can write to.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.resources
import inspect
import os
import pickle
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import llvmlite
import numba
from numba.core import serialize, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Numba has types for some of what we use, depending on its version.
_compile_result: Final[Any] = CompileResult
_config: Final[Any] = numba.config
_dumps: Final[Any] = serialize.dumps
_normalize_signature: Final[Any] = sigutils.normalize_signature

_MAGIC: Final = b"offsetd kernel 1\n"
_CHECKSUM_BYTES: Final = 32
_STORAGE_KERNELS: Final = "offsetd_storage.kernels"


class KernelCache(_Cache):
    """What Numba asks before it compiles `function`, and tells afterwards.

    Only `signature` is let through; other types raise TypeError. A damaged, foreign or unreadable
    file is a miss; a folder that cannot be written to is no error: the next process compiles
    again. `check` is called with each fresh CompileResult and may raise.
    """

    def __init__(
        self, function: Callable[..., Any], signature: str, *, check: Callable[[Any], None]
    ) -> None:
        self._function = function
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._arguments, _ = _normalize_signature(signature)
        self._check = check
        self._found: bytes | None = None  # Read already, and not loaded yet.
        self.compiled = 0  # How often it was not found.

    @property
    def cache_path(self) -> str:
        return str(cache_folders(self._function)[0])

    def holds_kernel(self) -> bool:
        """Whether the machine code is there, and undamaged; then it can be loaded from now on,
        whatever becomes of the file.
        """
        if self._found is None:
            self._found = self._read()
        return self._found is not None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        arguments, _ = _normalize_signature(sig)
        # Forbidding Numba to compile would not do: it then turns floats into integers.
        if arguments != self._arguments:
            raise TypeError(f"{self._name} takes {self._arguments}, not {arguments}")
        if not self.holds_kernel():
            return None
        content, self._found = self._found, None
        assert content is not None, "it is held"
        # Numba would first make ready to compile (`target_context.refresh()`), which takes longer
        # than loading all kernels; whoever does compile one makes ready all the same.
        # The checksum says that these are the bytes we wrote, into a folder only we can write to.
        return _compile_result._rebuild(target_context, *pickle.loads(content))  # noqa: S301

    def save_overload(self, sig: Any, compiled: Any) -> None:
        del sig
        self._check(compiled)
        assert not compiled.library.has_dynamic_globals, "a kernel must be cacheable"
        self.compiled += 1
        content = _dumps(compiled._reduce())
        for folder in cache_folders(self._function):
            with contextlib.suppress(OSError):
                _make_private(folder)
                if _is_trusted(folder):
                    _replace(folder / self._file_name(), content)
                    return

    def enable(self) -> None:
        """Always enabled."""

    def disable(self) -> None:
        """Always enabled."""

    def flush(self) -> None:
        """Nothing is held back."""

    def _file_name(self) -> str:
        # A signature is part of the sources, and so of the folder's name, except in tests.
        digest = hashlib.sha256(str(self._arguments).encode()).hexdigest()[:8]
        return f"{self._name}-{digest}"

    def _read(self) -> bytes | None:
        for folder in cache_folders(self._function):
            with contextlib.suppress(OSError):
                if not _is_trusted(folder):
                    continue
                framed = (folder / self._file_name()).read_bytes()
                checksum, content = _split(framed)
                if hashlib.sha256(content).digest() == checksum:
                    return content
        return None


def cache_folders(function: Callable[..., Any]) -> tuple[Path, ...]:
    """Where compiled code of `function` may be, best first."""
    key = _key(_sources_of(function))
    return tuple(root / key for root in _roots())


def _roots() -> Iterator[Path]:
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if cache_home.is_absolute():  # The XDG specification: a relative path is to be ignored.
        yield cache_home / "offsetd" / "kernels"
    else:
        with contextlib.suppress(RuntimeError):  # No home folder.
            yield Path.home() / ".cache" / "offsetd" / "kernels"
    yield Path(tempfile.gettempdir(), f"offsetd-kernels-{os.geteuid()}")


def _sources_of(function: Callable[..., Any]) -> str:
    """The module or package whose sources, besides our own, decide what `function` compiles to."""
    package, _, _ = function.__module__.rpartition(".")
    return package if package.endswith(".kernels") else function.__module__


@functools.cache
def _key(sources: str) -> str:
    digest = hashlib.sha256(repr(_environment()).encode())
    _hash_package(_STORAGE_KERNELS, digest)
    if sources.endswith(".kernels"):
        _hash_package(sources, digest)
    else:
        digest.update(inspect.getsource(sys.modules[sources]).encode())
    return digest.hexdigest()[:32]


def _environment() -> tuple[object, ...]:
    return (
        numba.__version__,
        llvmlite.__version__,
        sys.implementation.cache_tag,
        cpu_target.target_context.codegen().magic_tuple(),
        _config.BOUNDSCHECK,
        _config.OPT,
        _config.DEBUGINFO_DEFAULT,
    )


def _hash_package(package: str, digest: Any) -> None:
    folder = importlib.resources.files(package)
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.name.endswith(".py"):
            source = entry.read_bytes()
            digest.update(f"{package} {entry.name} {len(source)}\n".encode())
            digest.update(source)


def _make_private(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    folder.mkdir(exist_ok=True, mode=0o755)


def _is_trusted(folder: Path) -> bool:
    """Whether only we, or root, can write to `folder`, and to the one that names it."""
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

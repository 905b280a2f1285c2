"""Kernels that Numba has compiled, on disk.

Numba's own cache does not notice that a kernel called from another file has changed. It trusts
damaged files, and there is one cache for the whole process. Here a folder is named by a hash of
everything the machine code depends on (see `code_files`).
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import sys
from typing import TYPE_CHECKING, Any, Final

import llvmlite
import numba
from numba.core import serialize, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target

from offsetd_storage.kernels.code_files import (
    code_folders,
    code_key,
    kernels_package,
    read_code,
    write_code,
)
from offsetd_storage.kernels.linking import MachineCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# It depends on Numba's version which of the things that we use have types.
_compile_result: Final[Any] = CompileResult
_config: Final[Any] = numba.config
_dumps: Final[Any] = serialize.dumps
_normalize_signature: Final[Any] = sigutils.normalize_signature

_STORAGE_KERNELS: Final = "offsetd_storage.kernels"


class KernelCache(_Cache):
    """The cache that Numba reads before it compiles `function`, and writes after that.

    Only `signature` is accepted; other types raise TypeError. A damaged, foreign or unreadable file
    is a miss; a folder that cannot be written to is not an error: the next process compiles again.
    `check` is called with each fresh CompileResult and may raise.
    """

    def __init__(
        self, function: Callable[..., Any], signature: str, *, check: Callable[[Any], None]
    ) -> None:
        self._function = function
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._arguments, _ = _normalize_signature(signature)
        self._check = check
        self._found: bytes | None = None  # The content that was read, but not loaded yet.
        self.compiled = 0  # How often the kernel was not found.

    @property
    def cache_path(self) -> str:
        return str(cache_folders(self._function)[0])

    def holds_kernel(self) -> bool:
        """Whether the cache file exists and is undamaged.

        Its content is kept in memory until it is loaded, so the file may then be removed.
        """
        if self._found is None:
            self._found = self._read()
        return self._found is not None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        arguments, _ = _normalize_signature(sig)
        # It is not enough to forbid Numba to compile: it then turns floats into integers.
        if arguments != self._arguments:
            raise TypeError(f"{self._name} takes {self._arguments}, not {arguments}")
        if not self.holds_kernel():
            return None
        content, self._found = self._found, None
        assert content is not None, "it is held"
        # Numba would first prepare to compile (`target_context.refresh()`), which takes longer than
        # loading all kernels. A call that compiles prepares by itself. The checksum says that these
        # are the bytes we wrote, into a folder only we can write to.
        return _compile_result._rebuild(target_context, *pickle.loads(content))  # noqa: S301

    def save_overload(self, sig: Any, compiled: Any) -> None:
        del sig
        self._check(compiled)
        assert not compiled.library.has_dynamic_globals, "a kernel must be cacheable"
        self.compiled += 1
        content = _dumps(compiled._reduce())
        write_code(cache_folders(self._function), self._file_name(), content)

    def machine_code(self) -> MachineCode | None:
        """The code from which `linking` makes the kernel; None if the cache does not have it."""
        content = self._read()
        if content is None:
            return None
        library, description, environment, *_ = pickle.loads(content)  # noqa: S301  As above.
        _, kind, (code, _) = library
        assert kind == "object", "Numba keeps what it has compiled"
        assert not environment.consts, "a kernel has no Python objects"
        return MachineCode(
            self._name, description.llvm_cpython_wrapper_name, description.env_name, code
        )

    def enable(self) -> None:
        """Does nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Does nothing: the cache is always enabled."""

    def flush(self) -> None:
        """Does nothing: every file is written at once."""

    def _file_name(self) -> str:
        # A signature is part of the sources, and so of the folder's name, except in tests.
        digest = hashlib.sha256(str(self._arguments).encode()).hexdigest()[:8]
        return f"{self._name}-{digest}"

    def _read(self) -> bytes | None:
        return read_code(cache_folders(self._function), self._file_name())


def cache_folders(function: Callable[..., Any]) -> tuple[Path, ...]:
    """The folders that may hold compiled code of `function`, best first."""
    return code_folders(_key(_sources_of(function)))


def _sources_of(function: Callable[..., Any]) -> str:
    """The module or package whose sources, with our own, decide what `function` compiles to."""
    return kernels_package(function.__module__) or function.__module__


@functools.cache
def _key(sources: str) -> str:
    if sources.endswith(".kernels"):
        return code_key(_environment(), _STORAGE_KERNELS, sources)
    source = inspect.getsource(sys.modules[sources])
    return code_key(_environment(), _STORAGE_KERNELS, source=source)


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

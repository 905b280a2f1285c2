"""Every kernel, with the one signature it is compiled for.

A module of kernels declares them on import and compiles nothing; `warm` compiles them, or loads
them from the cache. (A call before that does it for the one kernel.) A call with arguments of
other types, a read-only array for one, raises TypeError. A kernel may call other kernels and
inline kernels, and may use constants of `kernels` packages only: the cache is keyed by the
sources of those packages (see `cache`).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import attrs
from numba import njit
from numba.core.caching import NullCache

from offsetd_storage.kernels.cache import KernelCache

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Function = TypeVar("Function", bound="Callable[..., Any]")

# Unsigned 64-bit mixed with signed rounds through float64 in Numba; floats lose offsets.
_UNSAFE_TYPE: Final = re.compile(r"\b(uint64|float\d+|complex\d+)\b")

# A division by zero is our own mistake and checked by nobody; nobody calls kernels from C.
# Kernels allocate nothing, so arrays need no counts of references: without `_nrt` those were most
# of the work of a kernel that takes ten arrays.
_OPTIONS: Final[Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


class UnsafeKernelError(TypeError):
    """A kernel in which a variable became an unsigned 64-bit integer or a float."""


@attrs.frozen(kw_only=True)
class Kernel:
    """A compiled loop: `dispatcher` is what the module calls, `signature` all it accepts."""

    name: str
    signature: str
    dispatcher: Any
    cache: KernelCache


_kernels: dict[str, Kernel] = {}


def kernel(signature: str) -> Callable[[Function], Function]:
    """Register a function to be compiled for `signature`, without the GIL, and cached on disk."""

    def register(function: Function) -> Function:
        dispatcher: Any = njit(**_OPTIONS)(function)
        cache = KernelCache(function, signature, check=refuse_unsafe_types)
        # Numba looks a compiled function up here before it compiles, and stores it afterwards.
        dispatcher._cache = cache
        name = f"{function.__module__}.{function.__qualname__}"
        _kernels[name] = Kernel(name=name, signature=signature, dispatcher=dispatcher, cache=cache)
        return cast("Function", dispatcher)

    return register


def inline_kernel(function: Function) -> Function:
    """A building block that becomes part of the kernels that call it; cached with them."""
    dispatcher: Any = njit(**_OPTIONS, forceinline=True)(function)
    dispatcher._cache = _CheckedNullCache()
    return cast("Function", dispatcher)


def refuse_unsafe_types(compiled: Any) -> None:
    """Raise `UnsafeKernelError` if a variable of a `CompileResult` has an unsafe type."""
    for variable, variable_type in compiled.fndesc.typemap.items():
        if _UNSAFE_TYPE.search(str(variable_type)):
            raise UnsafeKernelError(f"{compiled.fndesc.qualname}: {variable} is {variable_type}")


class _CheckedNullCache(NullCache):
    def save_overload(self, sig: Any, compiled: Any) -> None:
        del sig
        refuse_unsafe_types(compiled)


def registered_kernels() -> tuple[Kernel, ...]:
    """All kernels of the modules imported so far, by name."""
    return tuple(_kernels[name] for name in sorted(_kernels))


def import_kernels(*packages: str) -> None:
    """Import every module of these packages, so that their kernels are registered."""
    for package in packages:
        folder = importlib.import_module(package)
        for module in pkgutil.iter_modules(folder.__path__, f"{package}."):
            importlib.import_module(module.name)


def is_warm_on_disk() -> bool:
    """Whether `warm` would find every registered kernel in the cache, and compile none."""
    return all(each.cache.holds_kernel() for each in registered_kernels())


def warm(
    progress: Callable[[int, int, str], None] | None = None, *, later: Collection[str] = ()
) -> int:
    """Compile or load every registered kernel that is not there yet.

    Those of the modules `later` that the cache has are only read: their first call loads them,
    which takes some milliseconds and never compiles. `progress(done, total, name)` is called before
    each kernel, and with an empty name at the end. Returns how many had to be compiled.
    """
    kernels = [
        each
        for each in registered_kernels()
        if not (each.name.rpartition(".")[0] in later and each.cache.holds_kernel())
    ]
    compiled = sum(each.cache.compiled for each in kernels)
    for done, each in enumerate(kernels):
        if progress is not None:
            progress(done, len(kernels), each.name)
        each.dispatcher.compile(each.signature)
    if progress is not None:
        progress(len(kernels), len(kernels), "")
    return sum(each.cache.compiled for each in kernels) - compiled

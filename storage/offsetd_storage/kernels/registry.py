"""Every kernel, with the one signature it is compiled for.

A module of kernels declares them on import and compiles nothing; `warm` compiles them, or loads
them from the cache. (A call before that does it for the one kernel.) A call with arguments of
other types, a read-only array for one, raises TypeError. A kernel may call other kernels and
inline kernels, and may use constants of `kernels` packages only: the cache is keyed by the
sources of those packages (see `cache`).

A process that calls `link` first has its kernels from `linked`, and does without Numba.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from offsetd_storage.kernels import linked
from offsetd_storage.kernels.code_files import kernels_package

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from offsetd_storage.kernels.cache import KernelCache

Function = TypeVar("Function", bound="Callable[..., Any]")


@attrs.frozen(kw_only=True)
class Kernel:
    """A compiled loop: `dispatcher` is what the module calls, `signature` all it accepts."""

    name: str
    signature: str
    dispatcher: Any
    cache: KernelCache


_kernels: dict[str, Kernel] = {}
_linked: Mapping[str, Callable[..., Any]] | None = None


def link(*packages: str) -> bool:
    """Has the kernels of these packages, and no others, from now on, by way of `linked`.

    False where they are not kept there, or modules of kernels were imported before: then they are
    compiled, or loaded, as without.
    """
    global _linked  # noqa: PLW0603  A process has its kernels one way or the other.
    if not _kernels:
        _linked = linked.load_linked(packages)
    return _linked is not None


def is_linked() -> bool:
    """Whether kernels are linked: there is nothing to warm."""
    return _linked is not None


def keep_linked(*packages: str) -> None:
    """Has `link` find all kernels of these packages, which are imported and warm.

    Where the cache cannot be written to, it will not.
    """
    if is_linked() or not linked.may_link() or linked.has_linked(packages):
        return
    kernels = []
    for each in registered_kernels():
        if kernels_package(each.name) in packages:
            code = each.cache.machine_code()
            if code is None:
                return
            kernels.append(code)
    if kernels:
        linked.keep_linked(packages, kernels)


def kernel(signature: str) -> Callable[[Function], Function]:
    """Register a function to be compiled for `signature`, without the GIL, and cached on disk."""

    def register(function: Function) -> Function:
        name = f"{function.__module__}.{function.__qualname__}"
        if _linked is not None:
            return cast("Function", _linked[name])
        dispatcher, cache = _compiling().compiled_kernel(function, signature)
        _kernels[name] = Kernel(name=name, signature=signature, dispatcher=dispatcher, cache=cache)
        return cast("Function", dispatcher)

    return register


def inline_kernel(function: Function) -> Function:
    """A building block that becomes part of the kernels that call it; cached with them."""
    return function if _linked is not None else _compiling().compiled_inline(function)


def intrinsic(function: Callable[..., Any]) -> Any:
    """A building block of which `function` makes the code, as one of Numba's intrinsics."""
    return function if _linked is not None else _compiling().intrinsic(function)


def processor_has(feature: str) -> bool:
    """Whether what is compiled may use a feature, by LLVM's name for it. Linked: of no use."""
    return _linked is None and _compiling().processor_has(feature)


def _compiling() -> Any:
    """Numba's part, which a process that links does not import."""
    return importlib.import_module("offsetd_storage.kernels.compiling")


def registered_kernels() -> tuple[Kernel, ...]:
    """All kernels of the modules imported so far, by name; none where they are linked."""
    return tuple(_kernels[name] for name in sorted(_kernels))


def import_kernels(*packages: str) -> None:
    """Import every module of these packages, so that their kernels are registered."""
    for package in packages:
        folder = importlib.import_module(package)
        for module in pkgutil.walk_packages(folder.__path__, f"{package}."):
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

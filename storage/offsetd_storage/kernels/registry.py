"""Every kernel, with the one signature that it is compiled for.

The import of a module registers its kernels and compiles nothing. `warm` compiles them, or loads
them from the cache; a call before that does it for the called kernel. A call with arguments of
other types, for example a read-only array, raises TypeError. A kernel may call other kernels and
inline kernels. It may use only constants of `kernels` packages, because the sources of those
packages are the key of the cache (see `cache`).

A process that calls `link` before it imports a kernel takes its kernels from `linking`, and does
not import Numba.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from offsetd_storage.kernels import linking
from offsetd_storage.kernels.code_files import kernels_package

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from offsetd_storage.kernels.cache import KernelCache

Function = TypeVar("Function", bound="Callable[..., Any]")


@attrs.frozen(kw_only=True)
class Kernel:
    """A compiled loop: the module calls `dispatcher`, which accepts only `signature`."""

    name: str
    signature: str
    dispatcher: Any
    cache: KernelCache


_kernels: dict[str, Kernel] = {}
_linked: Mapping[str, Callable[..., Any]] | None = None


def link(*packages: str) -> bool:
    """Link the kernels of these packages. The process can then import no other kernels.

    Returns False if they cannot be linked, or if a module of kernels was imported before. Numba
    then compiles or loads the kernels.
    """
    global _linked  # noqa: PLW0603  All kernels of a process are linked, or none.
    if not _kernels:
        _linked = linking.load_linked(packages)
    return _linked is not None


def is_linked() -> bool:
    """Whether the kernels are linked. Then `warm` has nothing to do."""
    return _linked is not None


def keep_linked(*packages: str) -> None:
    """Write the file that `link` reads. All kernels of the packages must be imported and warm.

    Writes nothing if the file exists, or if the cache cannot be written.
    """
    if is_linked() or not linking.may_link() or linking.has_linked(packages):
        return
    kernels = []
    for each in registered_kernels():
        if kernels_package(each.name) in packages:
            code = each.cache.machine_code()
            if code is None:
                return
            kernels.append(code)
    if kernels:
        linking.keep_linked(packages, kernels)


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
    """Register a function that is compiled into the kernels that call it, and cached with them."""
    return function if _linked is not None else _compiling().compiled_inline(function)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Register a function that generates code for kernels: an intrinsic of Numba."""
    return function if _linked is not None else _compiling().intrinsic(function)


def processor_has(feature: str) -> bool:
    """Whether compiled code may use a processor feature, by LLVM's name. False if linked."""
    return _linked is None and _compiling().processor_has(feature)


def _compiling() -> Any:
    """The module that needs Numba. A process with linked kernels does not import it."""
    return importlib.import_module("offsetd_storage.kernels.compiling")


def registered_kernels() -> tuple[Kernel, ...]:
    """All kernels of the modules imported so far, ordered by name; none if they are linked."""
    return tuple(_kernels[name] for name in sorted(_kernels))


def import_kernels(*packages: str) -> None:
    """Import every module of these packages. This registers their kernels."""
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
    """Compile or load every registered kernel.

    Kernels of the modules `later` that are in the cache are left out: their first call loads them
    in some milliseconds. `progress(done, total, name)` is called before each kernel, and with an
    empty name at the end. Returns the number of compiled kernels.
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

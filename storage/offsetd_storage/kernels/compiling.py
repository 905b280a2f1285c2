"""Makes kernels with Numba: compiles them, or loads them from the cache."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from numba import njit
from numba.core.caching import NullCache
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from offsetd_storage.kernels.cache import KernelCache

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "UnsafeKernelError",
    "compiled_inline",
    "compiled_kernel",
    "intrinsic",
    "processor_has",
]

# Numba mixes unsigned and signed 64-bit integers as float64, which rounds: offsets get lost.
_UNSAFE_TYPE: Final = re.compile(r"\b(uint64|float\d+|complex\d+)\b")

# A division by zero would be a bug of ours, and is not checked. Nobody calls kernels from C.
# Kernels allocate nothing, so arrays need no reference counts (`_nrt`). These counts were most of
# the work of a kernel that takes ten arrays.
_OPTIONS: Final[Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


class UnsafeKernelError(TypeError):
    """A kernel in which a variable became an unsigned 64-bit integer or a float."""


def compiled_kernel(function: Callable[..., Any], signature: str) -> tuple[Any, KernelCache]:
    """A dispatcher for one signature, and its cache. A request or a call compiles the kernel."""
    dispatcher: Any = njit(**_OPTIONS)(function)
    cache = KernelCache(function, signature, check=_refuse_unsafe_types)
    # Numba searches here for a compiled function before it compiles, and stores it after that.
    dispatcher._cache = cache
    return dispatcher, cache


def compiled_inline(function: Callable[..., Any]) -> Any:
    """A dispatcher for other kernels to call."""
    dispatcher: Any = njit(**_OPTIONS, forceinline=True)(function)
    dispatcher._cache = _CheckedNullCache()
    return dispatcher


def processor_has(feature: str) -> bool:
    """Whether compiled code may use a processor feature, by LLVM's name."""
    features: str = cpu_target.target_context.codegen().magic_tuple()[2]
    return f"+{feature}" in features.split(",")


def _refuse_unsafe_types(compiled: Any) -> None:
    """Raise `UnsafeKernelError` if a variable of a `CompileResult` has an unsafe type."""
    for variable, variable_type in compiled.fndesc.typemap.items():
        if _UNSAFE_TYPE.search(str(variable_type)):
            raise UnsafeKernelError(f"{compiled.fndesc.qualname}: {variable} is {variable_type}")


class _CheckedNullCache(NullCache):
    def save_overload(self, sig: Any, compiled: Any) -> None:
        del sig
        _refuse_unsafe_types(compiled)

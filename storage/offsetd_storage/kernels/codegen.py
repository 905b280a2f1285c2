"""The modules of Numba and llvmlite that make intrinsics, imported when one is compiled.

A process that links its kernels (see `linking`) compiles none, and imports none of these.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_MODULES: Final = {
    "arrayobj": "numba.np.arrayobj",
    "cgutils": "numba.core.cgutils",
    "config": "numba.core.config",
    "ir": "llvmlite.ir",
    "types": "numba.core.types",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    return importlib.import_module(_MODULES[name])

"""The resident memory of this process."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_libc: Final = ctypes.PyDLL(None)
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STATM_BYTES_MAX: Final = 256


class ResidentMemory:
    """Reads the resident memory. For one thread, many times a second.

    The file stays open, and the interpreter's lock is kept: a read takes two microseconds. If it
    released the lock, the thread would wait for the lock while the event loop is busy.
    """

    def __init__(self) -> None:
        self._descriptor = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._text = ctypes.create_string_buffer(_STATM_BYTES_MAX)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def bytes(self) -> int:
        """The resident memory now."""
        size = _libc.pread(self._descriptor, self._text, _STATM_BYTES_MAX, ctypes.c_longlong(0))
        return int(self._text.raw[:size].split()[1]) * _PAGE_BYTES


def give_back_memory() -> None:
    """Returns freed memory to the system; the C library would keep it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # Other C libraries do not have this function.
        trim(0)

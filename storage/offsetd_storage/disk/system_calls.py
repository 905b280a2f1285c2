"""Linux's calls for open files that Python does not have."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

_FALLOC_FL_KEEP_SIZE: Final = 1
_SYNC_FILE_RANGE_WRITE: Final = 2

_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_sync_file_range = _libc.sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def allocate_blocks(descriptor: int, position: int, size: int) -> bool:
    """Reserves blocks, keeps the file's length; raises ENOSPC. Returns False if unable."""
    while _fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, position, size) != 0:
        error = ctypes.get_errno()
        if error in (errno.EOPNOTSUPP, errno.ENOSYS):
            return False  # Then the write fails if the disk is full.
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return True


def begin_writeback(descriptor: int, position: int, size: int) -> None:
    """Starts to write a range to the disk. The next sync raises its errors."""
    _sync_file_range(descriptor, position, size, _SYNC_FILE_RANGE_WRITE)

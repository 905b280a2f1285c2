"""The operations of the simulated disk, and the faults that make them fail."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from pathlib import Path


class OperationKind(StrEnum):
    """The kind of an operation. READ changes nothing and is not counted: it is for faults only."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    ALLOCATE = "allocate"
    SYNC = "sync"  # Also `datasync`.
    RENAME = "rename"
    UNLINK = "unlink"
    MAKE_FOLDER = "make_folder"
    REMOVE_FOLDER = "remove_folder"
    SYNC_FOLDER = "sync_folder"
    READ = "read"


@attrs.frozen(kw_only=True)
class Operation:
    """A change of the disk that is about to happen."""

    number: int  # Counted from 0 for each disk.
    kind: OperationKind
    path: Path  # For a rename, the source. For an open file, the path it was opened by.
    target: Path | None = None
    position: int = 0
    size: int = 0


@attrs.define(kw_only=True)
class Fault:
    """Makes operations raise OSError: the `nth` that matches (from 1), or all if `nth` is None.

    `kind` None means every kind but READ. `path` is a shell pattern for the whole path. A failed
    write first writes `written_bytes`. A failed sync writes the file's first `synced_writes`
    pending writes to the disk and gives the others up. Any other failed operation changes nothing.
    """

    errno: int
    kind: OperationKind | None = None
    path: str = "*"
    nth: int | None = None
    written_bytes: int = 0
    synced_writes: int = 0
    matched: int = 0  # The number of operations that matched so far.

    def strikes(self, kind: OperationKind, path: Path) -> bool:
        """Whether the operation fails; counts it if it matches."""
        if kind is not self.kind and (self.kind is not None or kind is OperationKind.READ):
            return False
        if not fnmatchcase(str(path), self.path):
            return False
        self.matched += 1
        return self.nth is None or self.nth == self.matched

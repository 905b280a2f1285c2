"""A file of an operator that a server reads again when it has changed."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Value = TypeVar("Value")

_log = structlog.get_logger(__name__)


class _Stamp(NamedTuple):
    """What the disk says of a file. Equal stamps mean equal content, unless it was just written."""

    file: tuple[int, int]  # Device and inode: a file that replaces another one has others.
    size_bytes: int
    modified_ns: int
    changed_ns: int


class WatchedFile(Generic[Value]):
    """The value in a file. If a new content is wrong, the former value stays.

    `what` says what is in the file, for messages: "tokens". `parse` raises ValueError for a wrong
    content. `refresh` may run in another thread than the readers of `current` and `problem`.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], Value], what: str) -> None:
        """Raises OSError and ValueError. Both name the file; ValueError has one line."""
        self._path = path
        self._parse = parse
        self._what = what
        self._content, stamp = _read(path)
        self._seen: _Stamp | None = stamp
        self._settled: _Stamp | None = None
        self._told: tuple[str, bytes | None] | None = None
        self.problem: str | None = None
        """What is wrong with the newest content; None if `current` is what the file says."""
        try:
            self.current = parse(self._content)
        except ValueError as error:
            raise ValueError(self._named(error)) from error

    def refresh(self) -> bool:
        """Looks at the file; returns whether `current` has changed. A wrong file raises nothing.

        A file that replaces the former one (by a rename) counts at once. One that is written in
        place counts at the second look that finds it the same: the first may see half of it.
        """
        try:
            if self._settled is not None and _stamp(self._path.stat()) == self._settled:
                return False
            content, stamp = _read(self._path)
        except OSError as error:
            self._seen = self._settled = None
            self._note_problem(str(error), None)
            return False
        # A write just after a look may leave the stamp as it is, so the next look reads, too.
        seen, self._seen = self._seen, stamp
        self._settled = stamp if stamp == seen else None
        if content == self._content:
            self.problem = self._told = None
            return False
        is_whole = seen is not None and (stamp == seen or stamp.file != seen.file)
        return is_whole and self._accept(content)

    def _accept(self, content: bytes) -> bool:
        try:
            value = self._parse(content)
        except ValueError as error:
            self._note_problem(self._named(error), content)
            return False
        has_changed = value != self.current
        self._content, self.current = content, value
        self.problem = self._told = None
        return has_changed

    def _note_problem(self, problem: str, content: bytes | None) -> None:
        """Warns once for one wrong content. `content` is None if it cannot be read."""
        self.problem = problem
        if self._told != (problem, content):
            self._told = problem, content
            _log.warning(
                "a changed file is wrong: its former content stays in force",
                what=self._what,
                file=str(self._path),
                problem=problem,
            )

    def _named(self, error: ValueError) -> str:
        return f"{self._path} ({self._what}): {error}"


def _read(path: Path) -> tuple[bytes, _Stamp]:
    """The content, and the stamp from before it was read."""
    # A pipe without a writer would block the open, and with it the look at all files.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return file.read(), _stamp(status)


def _stamp(status: os.stat_result) -> _Stamp:
    file = status.st_dev, status.st_ino
    return _Stamp(file, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

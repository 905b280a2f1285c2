"""Reads of a log while a server may clean it.

A listed segment may be gone when it is opened, or another segment may have its name or its index.
The segment that had the recovery point may have been rolled and cleaned since. So a read that finds
something wrong is repeated with new recovery points, until the files do not change during a read.
The server never waits, and nothing is locked.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from offsetd_storage.errors import FolderChanged, StorageError
from offsetd_storage.log.segment_files import LOG_SUFFIX, segment_base_offsets, segment_path
from offsetd_storage.recovery.quarantine import DamageFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.disk.files import File, Files
    from offsetd_storage.views.folder_view import FolderView, LogView

    _Shape = frozenset[tuple[str, int, int]]  # Names, sizes in bytes, and times of the last write.

_Found = TypeVar("_Found")

_ATTEMPTS: Final = 40
_PAUSE_SECONDS: Final = 0.05
_BASE_DIGITS: Final = 20


def seen_steadily(
    files: Files,
    view: FolderView,
    log: LogView,
    look: Callable[[LogView], _Found],
    *,
    is_doubtful: Callable[[_Found], bool] = lambda _: False,
    sleep: Callable[[float], object] = time.sleep,
) -> _Found:
    """Calls `look` for a log. Calls it again if its result is doubtful and the files changed.

    Returns the result. Raises an error of `look` if no file changed during the call, or if this was
    the last attempt.
    """
    if view.is_settled:
        return look(log)
    for attempt in range(_ATTEMPTS):
        is_last = attempt == _ATTEMPTS - 1
        before = _shape(files, log)
        try:
            found = look(log)
            if is_last or not is_doubtful(found) or _is_steady(files, view, log, before):
                return found
        except (FileNotFoundError, StorageError, DamageFound):
            if is_last or _is_steady(files, view, log, before):
                raise
        sleep(_PAUSE_SECONDS)
        log = _seen_now(files, view, log)
    raise AssertionError("the last attempt returns or raises")


@attrs.frozen(kw_only=True)
class LogFigures:
    """The figures of the files that a read of a log used. While they are equal, so is its result.

    Each segment that takes no more appends has its name, its size and the time of the last write.
    The segment with the recovery point, which takes appends, has only its base offset.
    """

    segments: frozenset[tuple[str, int, int]]
    segment_base_offset: int | None


def figures_of(files: Files, view: FolderView, log: LogView) -> LogFigures | None:
    """The present figures of a log's files; None while segments are being exchanged."""
    log = _seen_now(files, view, log)
    shape = _shape(files, log, exchanging=(".swap",))
    point = log.recovery_point
    if shape is None:
        return None
    return LogFigures(
        segments=shape, segment_base_offset=None if point is None else point.segment_base_offset
    )


def seen_with_figures(
    files: Files,
    view: FolderView,
    log: LogView,
    look: Callable[[LogView], _Found],
    *,
    sleep: Callable[[float], object] = time.sleep,
) -> tuple[_Found, LogFigures]:
    """The result of `look` for a log whose files did not change during the call, and their figures.

    A later comparison of the figures shows whether a later read still belongs to this result.
    Raises FolderChanged if the files change in every attempt, and the errors of `look` if not.
    """
    for _ in range(_ATTEMPTS):
        log = _seen_now(files, view, log)
        before = figures_of(files, view, log)
        if before is not None:
            try:
                found = look(log)
            except (FileNotFoundError, StorageError, DamageFound):
                if figures_of(files, view, log) == before:
                    raise
            else:
                if figures_of(files, view, log) == before:
                    return found, before
        sleep(_PAUSE_SECONDS)
    raise FolderChanged(
        f"{log.folder} keeps changing while it is read: a server is cleaning it,"
        " or was stopped while it did"
    )


class SegmentWalk:
    """Opens the segments of a log one by one, in the order of their offsets.

    If a server is running, each step lists the folder again, so that the walk does not skip the
    segments that a cleaning round joins.
    """

    def __init__(
        self, files: Files, log: LogView, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.opened = 0
        self.is_live = log.recovery_point is not None
        self._files = files
        self._log = log
        self._sleep = sleep
        self._seen: dict[int, tuple[int, int]] = {}  # Sizes in bytes, and times of the last write.
        self._listed = iter(segment_base_offsets(files, log.folder))

    def open_next(self, offset_next: int) -> tuple[int, File] | None:
        """Opens the segment that contains `offset_next`, or the first segment after it.

        Returns its base offset and its file, which the caller closes; None at the log's end. Raises
        OSError.
        """
        if not self.is_live:
            base_offset = next(self._listed, None)
            return None if base_offset is None else (base_offset, self._opened(base_offset))
        for _ in range(_ATTEMPTS):
            try:
                base_offset = self._next(offset_next)
                if base_offset is None:
                    return None
                self._seen[base_offset] = self._figures(base_offset)
                return base_offset, self._opened(base_offset)
            except FileNotFoundError:
                self._sleep(_PAUSE_SECONDS)
        raise FileNotFoundError(f"{self._log.folder} keeps changing")

    def _next(self, offset_next: int) -> int | None:
        """The base offset of the segment to open, or None at the log's end.

        Raises FileNotFoundError while segments are being exchanged.
        """
        if any(name.endswith(".swap") for name in self._files.list_folder(self._log.folder)):
            raise FileNotFoundError
        bases = segment_base_offsets(self._files, self._log.folder)
        slot = max(bisect_right(bases, offset_next) - 1, 0)
        if slot < len(bases) and self._seen.get(bases[slot]) == self._figures(bases[slot]):
            slot += 1
        return bases[slot] if slot < len(bases) else None

    def _figures(self, base_offset: int) -> tuple[int, int]:
        path = segment_path(self._log.folder, base_offset)
        if not self._is_behind(base_offset):
            return 0, 0  # This segment takes appends, which do not count as changes.
        return self._files.size(path), self._files.modified_ms(path)

    def _is_behind(self, base_offset: int) -> bool:
        point = self._log.recovery_point
        return point is None or base_offset < point.segment_base_offset

    def _opened(self, base_offset: int) -> File:
        self.opened += 1
        return self._files.open(segment_path(self._log.folder, base_offset), read_only=True)


def _is_steady(files: Files, view: FolderView, log: LogView, before: _Shape | None) -> bool:
    """Returns whether files and the recovery point's segment are unchanged since `before`."""
    if before is None or _shape(files, log) != before:
        return False
    now = _seen_now(files, view, log).recovery_point
    point = log.recovery_point
    return (now and now.segment_base_offset) == (point and point.segment_base_offset)


def _shape(
    files: Files, log: LogView, *, exchanging: tuple[str, ...] = (".swap", ".deleted")
) -> _Shape | None:
    """The segments that take no more appends; None while segments are being exchanged.

    They are being exchanged while a file has one of these suffixes. An exchanged segment may be
    `.deleted` for some time.
    """
    found = set()
    try:
        for name in files.list_folder(log.folder):
            base, _, suffixes = name.partition(".")
            if f".{suffixes}" == LOG_SUFFIX and _is_behind(base, log):
                path = log.folder / name
                found.add((name, files.size(path), files.modified_ms(path)))
            elif suffixes.endswith(exchanging):
                return None
    except FileNotFoundError:
        return None
    return frozenset(found)


def _is_behind(base: str, log: LogView) -> bool:
    point = log.recovery_point
    return (
        len(base) == _BASE_DIGITS
        and base.isdecimal()
        and (point is None or int(base) < point.segment_base_offset)
    )


def _seen_now(files: Files, view: FolderView, log: LogView) -> LogView:
    """The same log with its present recovery point."""
    for each in view.seen_again(files).logs:
        if each.topic_partition == log.topic_partition:
            return each
    return log

"""Keeps the list of a log's segments while the log is open: when it rolls, and when it is cleaned.

Retention writes nothing: what it takes away lies below a log start that is durable by then.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsetd_storage.errors import may_pass
from offsetd_storage.log.segment_list import (
    SEGMENT_LIST_NAME,
    ListedSegment,
    SegmentList,
    found_snapshots,
    remove_segment_list,
    write_segment_list,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log.segment import Segment


class SegmentListing:
    """For two threads: one moves the recovery point, one cleans."""

    def __init__(
        self, files: Files, log_folder: Path, row: Callable[[], Sequence[Segment]]
    ) -> None:
        """`row` says which segments the log has just now, the active one last."""
        self.is_kept = True  # False of a broker's log: nothing of ours gets into its folder.
        self.below = 0  # The segments that begin below this are in the file, durably.
        self._files = files
        self._folder = log_folder
        self._row = row
        self._lock = threading.Lock()  # Of the file.
        self._written: SegmentList | None = None  # What it says, where that is known.
        self._old: Sequence[Segment] = ()  # Of the swap that goes on.
        self._new: Sequence[Segment] = ()

    def take(self, found: SegmentList | None, *, below: int) -> None:
        """Brings the file up to date with a log that has just been recovered, durably.

        `found` is what the file says, None if nothing counts. On a full disk it stays as it is,
        and is right up to `below`. Raises OSError.
        """
        if not self.is_kept:
            return
        segments = self._row()
        end = segments[-1].base_offset
        with self._lock:
            self.below, self._written = below, found
            exists = self._files.exists(self._folder / SEGMENT_LIST_NAME)
            if found is None and exists:
                remove_segment_list(self._files, self._folder)
            if len(segments) == 1 and not (found and exists):
                self.below = end  # There is nothing to list.
                return
            self._write_if_room(end)

    def cover(self, below: int) -> int:
        """Lists the segments that begin below `below`, which are durable; returns up to where all
        are listed: on a full disk that may be less.

        Raises CorruptBatch, OSError.
        """
        if below > self.below:
            with self._lock:
                self._write_if_room(below)
        return min(self.below, below)

    def settle(self) -> None:
        """Strikes out what the last swap replaced. Raises OSError."""
        with self._lock:
            if self._written is not None and self._written.replaced:
                self._write_if_room(self.below)

    @contextmanager
    def replacing(self, old: Sequence[Segment], new: Sequence[Segment]) -> Iterator[None]:
        """In the block `old`, neighbours in the row, give way to `new`, before or behind a crash.

        All of them are durable. Raises OSError, CorruptBatch: nothing has changed.
        """
        if not self.is_kept:
            yield
            return
        with self._lock:
            last = old[-1].base_offset
            following = next(each.base_offset for each in self._row() if each.base_offset > last)
            self._old, self._new = old, new
            try:
                self._write(max(self.below, following))
            except BaseException:
                self._old, self._new = (), ()
                raise
        try:
            yield
        finally:
            with self._lock:
                self._old, self._new = (), ()

    def _write_if_room(self, below: int) -> None:
        try:
            self._write(below)
        except OSError as error:
            if not may_pass(error):
                raise

    def _write(self, below: int) -> None:
        """Puts the segments that begin below `below` into the file, unless it says just that."""
        exchanged = {each.base_offset for each in (*self._old, *self._new)}
        row = [each for each in self._row() if each.base_offset not in exchanged]
        row = sorted([*row, *self._new], key=lambda each: each.base_offset)
        listed = SegmentList(
            below=below,
            segments=tuple(
                ListedSegment.of_segment(each) for each in row if each.base_offset < below
            ),
            replaced=tuple(map(ListedSegment.of_segment, self._old)),
            snapshots=found_snapshots(self._files, self._folder),
        )
        if listed != self._written:
            self._written = None  # Should it fail, the file may say one or the other.
            write_segment_list(self._files, self._folder, listed)
            self._written = listed
        self.below = below

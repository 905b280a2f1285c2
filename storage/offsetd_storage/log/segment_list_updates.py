"""Updates the list of a log's segments while the log is open: at each roll and each cleaning.

Retention does not update it: what it deletes lies below a log start that is durable by then.
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


class SegmentListUpdates:
    """The list of one log's segments. One thread moves the recovery point, one cleans."""

    def __init__(
        self, files: Files, log_folder: Path, row: Callable[[], Sequence[Segment]]
    ) -> None:
        """`row` returns the log's segments at that moment; the last is active."""
        self.is_kept = True  # False for a broker's log: offsetd puts no file into its folder.
        self.below = 0  # The segments that begin below this are in the file, durably.
        self._files = files
        self._folder = log_folder
        self._row = row
        self._lock = threading.Lock()  # Guards the file.
        self._written: SegmentList | None = None  # The contents of the file, if they are known.
        self._old: Sequence[Segment] = ()  # The replaced segments of the swap in progress.
        self._new: Sequence[Segment] = ()

    def take(self, found: SegmentList | None, *, below: int) -> None:
        """Updates the file for a log that has just been recovered, durably.

        `found` is the list in the file, or None if that does not count. On a full disk the file
        stays as it is, and is right up to `below`. Raises OSError.
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
                self.below = end  # There is no segment to list.
                return
            self._write_if_room(end)

    def cover(self, below: int) -> int:
        """Lists the segments that begin below `below`, which are durable.

        Returns the offset below which all are listed: less than `below` if the disk is full. Raises
        CorruptBatch, OSError.
        """
        if below > self.below:
            with self._lock:
                self._write_if_room(below)
        return min(self.below, below)

    def settle(self) -> None:
        """Removes from the file what the last swap replaced. Raises OSError."""
        with self._lock:
            if self._written is not None and self._written.replaced:
                self._write_if_room(self.below)

    @contextmanager
    def replacing(self, old: Sequence[Segment], new: Sequence[Segment]) -> Iterator[None]:
        """In the block, the caller replaces neighbours `old` by `new`; a crash may leave either.

        All of them are durable. If this raises OSError or CorruptBatch, nothing has changed.
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
        """Writes the segments that begin below `below` to the file, if it lacks them."""
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
            # If the write fails, the file may have the old list or the new one.
            self._written = None
            write_segment_list(self._files, self._folder, listed)
            self._written = listed
        self.below = below

"""Disk space: a reserve for cleaning, and a mark of free space below which commits are refused.

A log needs free space to become smaller: the cleaner writes what stays before it removes the rest,
and a deletion is a record too. So the folder holds a *reserve*, a file of blocks that hold nothing.
If an append finds no space, or less is free than the mark, the disk is LOW: the reserve is given
back and commits are refused; reads, deletions and cleaning continue. The disk is OK again when
there is space for the reserve and twice the mark, and the reserve was made again. Making it is the
proof: a quota may allow less than the file system reports as free. The second, higher mark keeps
the state from changing too often.

The name of the reserve is in `docs/formats/reserve.md`.
"""

from __future__ import annotations

import enum
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from offsetd_storage.errors import StorageFull, is_no_room

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.server_config import DiskConfig
    from offsetd_storage.disk.files import File, Files

_OpenedT = TypeVar("_OpenedT")

RESERVE_NAME: Final = "offsetd-reserve"
# The reserve and the free-space mark are at most the file system's size divided by these.
RESERVE_SHARE: Final = 16
FREE_SHARE: Final = 32
# The space for a copied segment's indexes, and for deletions.
_MORE_PERCENT: Final = 28
_MORE_BYTES_MIN: Final = 1 << 20
# The space for each log with small segments: one block for an old segment's index when it rolls,
# one for each of the new segment's three files, and one for more tombstones (about 60 with the
# first block).
_LOG_BYTES: Final = 5 * 4096
_ZERO_CHUNK_BYTES: Final = 1 << 20


class SpaceState(enum.Enum):
    """Whether commits are accepted."""

    OK = "ok"
    LOW = "low"


@attrs.frozen(kw_only=True)
class DiskMarks:
    """The limits that follow from the settings on one file system, in bytes."""

    reserve_bytes: int
    free_bytes_min: int

    @classmethod
    def of(cls, config: DiskConfig, *, total_bytes: int, reserve_bytes_needed: int) -> DiskMarks:
        """The reserve is at most 1/16 of the file system, and the mark at most 1/32.

        `reserve_bytes_needed` is the reserve's size if no setting gives one.
        """
        reserve_bytes = config.reserve_bytes
        if reserve_bytes is None:
            reserve_bytes = reserve_bytes_needed
        return cls(
            reserve_bytes=min(reserve_bytes, total_bytes // RESERVE_SHARE),
            free_bytes_min=min(config.free_bytes_min, total_bytes // FREE_SHARE),
        )

    @property
    def room_bytes_enough(self) -> int:
        """The free space, reserve included, at which commits are accepted again."""
        return self.reserve_bytes + 2 * self.free_bytes_min


def reserve_bytes_for(*, segment_bytes_most: int, logs: int) -> int:
    """The default reserve: enough to clean `logs` logs one after the other, and for deletions.

    `segment_bytes_most` is the size of the largest segment that may have to be copied.
    """
    more_bytes = max(segment_bytes_most * _MORE_PERCENT // 100, logs * _LOG_BYTES, _MORE_BYTES_MIN)
    return segment_bytes_most + more_bytes


def next_state(
    state: SpaceState,
    marks: DiskMarks,
    *,
    free_bytes: int,
    reserve_bytes_held: int,
    was_full: bool,
) -> SpaceState:
    """The next state. `was_full`: an append found no room since the last check.

    OK after LOW is only a proposal: it holds once the reserve is made.
    """
    if was_full:
        return SpaceState.LOW
    if state is SpaceState.OK:
        return SpaceState.LOW if free_bytes < marks.free_bytes_min else SpaceState.OK
    is_enough = free_bytes + reserve_bytes_held >= marks.room_bytes_enough
    return SpaceState.OK if is_enough else SpaceState.LOW


@attrs.frozen(kw_only=True)
class DiskStatus:
    """The state of the disk at the last check; sizes in bytes."""

    state: SpaceState
    total_bytes: int
    free_bytes: int
    reserve_bytes_held: int
    marks: DiskMarks
    low_since_ms: int | None  # By the wall clock; None while the state is OK.
    times_low: int  # How often the state became LOW since the start.


class DiskSpace:
    """The state of one folder's disk, and its reserve.

    Any thread may read `is_low` and call `note_full`; neither touches the disk. The other methods
    are for one thread at a time.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        config: DiskConfig,
        *,
        clock: Clock,
        reserve_bytes_needed: Callable[[], int],
        on_low: Callable[[], object] = lambda: None,
    ) -> None:
        """`reserve_bytes_needed` returns the reserve's size if no setting gives one.

        `on_low` is called when an append found no room: then a `check` is due.
        """
        self.is_low = False
        self._files = files
        self._folder = folder
        self._config = config
        self._clock = clock
        self._reserve_bytes_needed = reserve_bytes_needed
        self._on_low = on_low
        self._path = folder / RESERVE_NAME
        self._lock = threading.Lock()  # Guards the next three, and `is_low`.
        self._was_full = False
        self._low_since_ms: int | None = None
        self._times_low = 0
        self._held_bytes = files.size(self._path) if files.exists(self._path) else 0
        # Whether its blocks are allocated: a copied folder may have lost them.
        self._is_sure = False
        self._free_bytes = files.free_bytes(folder)
        self._marks = self._marks_now()

    def configure(self, config: DiskConfig) -> None:
        """Takes new settings, which the next `check` follows."""
        self._config = config

    @property
    def status(self) -> DiskStatus:
        """The state at the last check."""
        with self._lock:
            return DiskStatus(
                state=SpaceState.LOW if self.is_low else SpaceState.OK,
                total_bytes=self._total_bytes,
                free_bytes=self._free_bytes,
                reserve_bytes_held=self._held_bytes,
                marks=self._marks,
                low_since_ms=self._low_since_ms,
                times_low=self._times_low,
            )

    def note_full(self, refusal: StorageFull) -> None:
        """Notes that an append found no room. This sets the state LOW.

        The state does not change if no descriptor was free, or a file may not grow: the reserve
        does not help then.
        """
        cause = refusal.__cause__
        if isinstance(cause, OSError) and not is_no_room(cause):
            return
        with self._lock:
            self._was_full = True
            becomes_low = self._set_low()
        if becomes_low:
            self._on_low()

    def check(self) -> None:
        """Checks the free space, and gives the reserve back or makes it, as the state requires.

        Raises OSError if the disk fails; too little space is not a failure.
        """
        with self._lock:
            was_full, self._was_full = self._was_full, False
        self._marks = self._marks_now()
        self._free_bytes = self._files.free_bytes(self._folder)
        state = next_state(
            SpaceState.LOW if self.is_low else SpaceState.OK,
            self._marks,
            free_bytes=self._free_bytes,
            reserve_bytes_held=self._held_bytes,
            was_full=was_full,
        )
        if state is SpaceState.LOW:
            with self._lock:
                # Set the state before the reserve is freed: then commits cannot use the reserve.
                self._set_low()
            self._give_back()
        elif self._has_reserve() or not self.is_low:
            with self._lock:
                # If a write met a full disk during this check, the state stays LOW for now.
                if not self._was_full:
                    self.is_low, self._low_since_ms = False, None

    def _set_low(self) -> bool:
        """Sets the state LOW; the caller holds the lock. Returns whether it was OK before."""
        if self.is_low:
            return False
        self.is_low = True
        self._low_since_ms = self._clock.now_ms()
        self._times_low += 1
        return True

    def _marks_now(self) -> DiskMarks:
        self._total_bytes = self._files.total_bytes(self._folder)
        return DiskMarks.of(
            self._config,
            total_bytes=self._total_bytes,
            reserve_bytes_needed=self._reserve_bytes_needed(),
        )

    # The reserve.

    def _has_reserve(self) -> bool:
        """Makes or resizes the reserve if there is space. Returns whether it is there."""
        wanted_bytes = self._marks.reserve_bytes
        if self._held_bytes < wanted_bytes:
            if self._free_bytes + self._held_bytes < self._marks.room_bytes_enough:
                return False
            self._is_sure = False
        elif self._held_bytes > wanted_bytes:
            self._is_sure = False
            if not wanted_bytes:
                self._give_back()
        if not self._is_sure:
            try:
                make_reserve(self._files, self._path, wanted_bytes)
            except OSError as error:
                self._give_back()
                if not is_no_room(error):
                    raise
                return False
            self._held_bytes, self._is_sure = wanted_bytes, True
            self._free_bytes = self._files.free_bytes(self._folder)
        return True

    def _give_back(self) -> None:
        give_back_reserve(self._files, self._folder)
        self._held_bytes = 0
        self._free_bytes = self._files.free_bytes(self._folder)


def make_reserve(files: Files, path: Path, size_bytes: int) -> None:
    """Makes a file of this size with blocks of its own. Raises OSError.

    An existing reserve grows or shrinks in place, so the smaller of both sizes is held during the
    call. If the file system cannot reserve blocks, zeros are written. (If it compresses zeros,
    there is no reserve, and only the mark protects.) If a power cut removes the name, the reserve
    is made again.
    """
    if not size_bytes:
        return
    file = files.open(path, create=True)
    try:
        if not file.allocate(0, size_bytes):
            _write_zeros(file, size_bytes)
        # The length is set last. So a file with the full length also has all its blocks.
        file.truncate(size_bytes)
        file.sync()
    finally:
        file.close()


def _write_zeros(file: File, size_bytes: int) -> None:
    zeros = bytes(min(_ZERO_CHUNK_BYTES, size_bytes))
    for position in range(0, size_bytes, _ZERO_CHUNK_BYTES):
        file.pwrite([zeros[: size_bytes - position]], position)


def give_back_reserve(files: Files, folder: Path) -> bool:
    """Removes the reserve. Returns whether there was one. Raises OSError."""
    path = folder / RESERVE_NAME
    if not files.exists(path):
        return False
    files.unlink(path)
    # Some file systems free the blocks only once the removal of the name is durable.
    files.sync_folder(folder)
    return True


def opened_with_reserve(files: Files, folder: Path, open_store: Callable[[], _OpenedT]) -> _OpenedT:
    """Calls `open_store`; if that finds no space, removes the reserve and calls it again.

    Recovery appends the journal's batches again, and may not find the space that it gave back.
    """
    with suppress(StorageFull):
        return open_store()
    give_back_reserve(files, folder)
    return open_store()

"""A reader that polls the recovery points of a journal that is in use."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.errors import JournalDamaged
from offsetd_storage.journal.journal import JOURNAL_NAMES
from offsetd_storage.journal.journal_format import FrameKind, decode_points
from offsetd_storage.journal.journal_reader import JournalReader
from offsetd_storage.journal.journal_recovery import read_header

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.folder_format import FolderIdentity
    from offsetd_storage.journal.journal_format import Frame, JournalHeader, RecoveryPoint
    from offsetd_storage.topic_partition import TopicPartition

_WINDOW_BYTES: Final = 256 << 10
# The number of attempts if no file has a header, because a server replaces one after the other.
_LOOKS: Final = 10


class _Turn(NamedTuple):
    """Identifies the turn of a journal file."""

    file_number: int
    life: int


class DurablePoints:
    """Reads the recovery points of a journal. Each read continues after the previous one."""

    def __init__(self, files: Files, folder: Path, identity: FolderIdentity) -> None:
        self.identity = identity
        self._files = files
        self._folder = folder
        self._turn: _Turn | None = None
        self._position = 0
        self._sequence = 0
        self._is_closed = False
        self._points: dict[TopicPartition, RecoveryPoint] = {}

    def read(self, *, begun: bool) -> dict[TopicPartition, RecoveryPoint] | None:
        """The recovery points; None if the journal has no life, or its last life was closed.

        They are empty if a life has begun (`begun`) but neither file has a valid header, which is
        damage. While a server runs, the points may be older than its newest ones. Raises
        JournalDamaged, NewerFormat, OSError.
        """
        for _ in range(_LOOKS):
            with ExitStack() as stack:
                newest = self._newest(stack)
                if newest is not None:
                    self._follow(*newest)
                    return None if self._is_closed else dict(self._points)
            if not begun:
                return None
            # One file was replaced before it was read, and the other one after it was read.
        return {}

    @property
    def last_points(self) -> dict[TopicPartition, RecoveryPoint]:
        """The points of the last read, even if the journal was closed."""
        return dict(self._points)

    def _newest(self, stack: ExitStack) -> tuple[JournalReader, JournalHeader] | None:
        """The file whose turn it is, and its header; None if neither file has one."""
        newest: tuple[JournalReader, JournalHeader] | None = None
        for name in JOURNAL_NAMES:
            if not self._files.exists(self._folder / name):
                continue
            file = self._files.open(self._folder / name, read_only=True)
            stack.callback(file.close)
            reader = JournalReader(file, mark=self.identity.frame_mark, window_bytes=_WINDOW_BYTES)
            header = read_header(reader, self.identity, name)
            if header and (newest is None or header.file_number > newest[1].file_number):
                newest = reader, header
        return newest

    def _follow(self, reader: JournalReader, header: JournalHeader) -> None:
        turn = _Turn(header.file_number, header.life)
        if turn != self._turn:
            self._position, self._sequence = header.frames_start, header.first_sequence
            self._is_closed = False
            self._points = {point.topic_partition: point for point in header.points}
            self._turn = turn
        told: tuple[Frame, bytes] | None = None
        while True:
            frame = reader.frame_at(self._position, header.file_bytes)
            if frame is None or frame.life != header.life or frame.sequence != self._sequence:
                break
            self._position, self._sequence = frame.end, self._sequence + 1
            self._is_closed = frame.kind is FrameKind.CLOSED
            if frame.kind in (FrameKind.RECOVERY_POINTS, FrameKind.CLOSED):
                # Read the payload now: later, the server may overwrite this file.
                told = frame, reader.payload(frame)
        if told is None:
            return
        frame, payload = told
        try:
            points = decode_points(payload)
        except ValueError as error:
            self._turn = None
            raise JournalDamaged(
                f"the frame at byte {frame.position} of journal file {header.file_number} is"
                f" damaged: {error}"
            ) from error
        self._points = {point.topic_partition: point for point in points}

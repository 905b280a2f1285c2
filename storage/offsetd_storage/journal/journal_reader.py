"""A reader of one journal file, through a window: its memory does not grow with the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.journal.journal_format import (
    FRAME,
    FRAME_BYTES_MAX,
    Frame,
    JournalHeader,
    align,
    decode_header,
    frame_places,
    read_frame,
)
from offsetd_storage.kernels import PADDING_BYTES, padded_buffer

if TYPE_CHECKING:
    from offsetd_storage.disk.files import File

WINDOW_BYTES: Final = 4 << 20  # Large enough for a header.


class JournalReader:
    """Finds headers and frames in an open file. All positions are positions in the file."""

    def __init__(self, file: File, *, mark: bytes, window_bytes: int = WINDOW_BYTES) -> None:
        self.size = file.size()
        self._file = file
        self._mark = mark
        self._window = padded_buffer(min(self.size, window_bytes))
        self._window_start = self._window_end = 0

    def header(self, name: str = "the journal") -> JournalHeader | None:
        """The header of the file `name`; None if it is incomplete or its checksum is wrong.

        Raises NewerFormat, and ValueError if a valid header has impossible values.
        """
        for size in (self._window.size - PADDING_BYTES, WINDOW_BYTES):
            self._see(0, min(self.size, size))
            header = decode_header(self._window, self._window_end, name)
            if header is not None:
                return header
        return None

    def frame_at(self, position: int, limit: int) -> Frame | None:
        """The frame at `position`; None if no valid frame there ends by `limit`."""
        if position + FRAME.size > limit:
            return None
        at = self._see(position, FRAME.size)
        mark, _, payload_bytes, *_ = FRAME.unpack_from(self._window.data, at)
        size = FRAME.size + payload_bytes
        if mark != self._mark or size > min(FRAME_BYTES_MAX, limit - position):
            return None
        at = self._see(position, size)
        return read_frame(
            self._window, at, at + size, mark=self._mark, buffer_position=position - at
        )

    def begun_frame_bytes(self, position: int, limit: int, *, life: int, sequence: int) -> int:
        """The least size of an incomplete frame that was begun at `position`; 0 if there is none.

        A frame's mark, life and sequence distinguish it from what earlier turns of the file left
        there. One of the three may be damaged. A frame of an earlier turn has a smaller sequence;
        its life may be the same.
        """
        if position + FRAME.size > limit or self.frame_at(position, limit) is not None:
            return 0
        at = self._see(position, FRAME.size)
        mark, _, payload_bytes, found_life, found_sequence, _ = FRAME.unpack_from(
            self._window.data, at
        )
        is_ours = (mark == self._mark) + (found_life == life) + (found_sequence == sequence) >= 2
        if not is_ours:
            return 0
        if found_sequence != sequence and (found_sequence ^ sequence).bit_count() > 1:
            return 0
        size = align(FRAME.size + payload_bytes)
        return size if size <= min(FRAME_BYTES_MAX, limit - position) else FRAME.size

    def payload(self, frame: Frame) -> bytes:
        """The payload of a frame."""
        size = frame.payload_end - frame.payload_start
        at = self._see(frame.payload_start, size)
        return self._window[at : at + size].tobytes()

    def find_frame(self, start: int, limit: int, *, sequence_min: int) -> Frame | None:
        """The first valid frame at or after `start`, of any life, with at least this sequence.

        Sequences never restart, so the frames of earlier turns and lives have smaller ones.
        """
        start = align(start)
        while limit - start >= FRAME.size:
            at = self._see(start, min(WINDOW_BYTES, limit - start))
            end = min(self._window_end, limit) - self._window_start
            places = frame_places(self._window, at, end, mark=self._mark, sequence_min=sequence_min)
            window_start, window_end = self._window_start, self._window_start + end
            for place in places:
                frame = self.frame_at(window_start + place, limit)
                if frame is not None:
                    return frame
            if window_end == limit or end - at < FRAME.size:
                return None
            start = align(window_end - FRAME.size + 1)
        return None

    def _see(self, position: int, size: int) -> int:
        """Reads `size` bytes at `position` into the window. Returns their place in it."""
        if position < self._window_start or position + size > self._window_end:
            if self._window.size - PADDING_BYTES < size:
                self._window = padded_buffer(size)
            wanted = min(self._window.size - PADDING_BYTES, max(self.size - position, 0))
            read = self._file.pread_into(self._window, wanted, position)
            self._window[read:] = 0  # The file may have become shorter.
            self._window_start, self._window_end = position, position + read
        return position - self._window_start

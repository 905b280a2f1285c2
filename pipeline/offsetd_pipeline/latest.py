"""The newest record of each offset, and of each other key, in one log partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from offsetd_storage.kernels.key_offsets import SECRET_WORDS

from offsetd_pipeline.kernels import latest
from offsetd_pipeline.kernels.fields import FIELDS, KEY_SIZE, VALUE_SIZE
from offsetd_pipeline.segments import Rows

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

_ENTRIES: Final = 4096
_KEPT_BYTES: Final = 1 << 20
_INT64: Final = np.iinfo(np.int64)


class LatestRecords:
    """Takes records in any order, and keeps the one with the largest log offset for each key."""

    def __init__(self, chance: np.random.Generator | None = None) -> None:
        chance = chance or np.random.default_rng()
        self._secret = chance.integers(_INT64.min, _INT64.max, SECRET_WORDS, np.int64)
        self._state = np.zeros(latest.STATE_SLOTS, np.int64)
        self._slots = np.zeros(2 * _ENTRIES, np.int64)
        self._entries = np.empty((_ENTRIES, latest.ENTRY_COLUMNS), np.int64)
        self._kept = np.empty(_KEPT_BYTES, np.uint8)

    def take(self, rows: Rows, chosen: Numbers) -> None:
        """Takes the chosen rows."""
        done = 0
        while True:
            done = latest.keep_latest(
                rows.buffer,
                rows.fields,
                chosen,
                done,
                self._state,
                self._secret,
                self._slots,
                self._entries,
                self._kept,
            )
            if done == len(chosen):
                return
            self._make_room(rows.fields[chosen[done]])

    def rows(self) -> Rows:
        """The kept rows, in any order."""
        count = int(self._state[latest.ENTRIES])
        return Rows(self._kept, np.ascontiguousarray(self._entries[:count, :FIELDS]), 0)

    def _make_room(self, record: Numbers) -> None:
        """Makes room for one more record, and doubles the space."""
        count = int(self._state[latest.ENTRIES])
        if count == len(self._entries):
            self._entries = np.concatenate([self._entries, np.empty_like(self._entries)])
            self._slots = np.zeros(2 * len(self._entries), np.int64)
            latest.fill_slots(self._entries, count, self._slots)
        needed = int(record[KEY_SIZE]) + 2 * max(int(record[VALUE_SIZE]), 0)
        if self._state[latest.KEPT_BYTES] + needed + 2 * latest.PADDING > self._kept.size:
            kept = np.empty(2 * self._kept.size + needed, np.uint8)
            kept[: self._kept.size] = self._kept
            self._kept = kept

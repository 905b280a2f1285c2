"""A segment as the cleaner reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from offsetd_storage.files import File


@attrs.frozen(kw_only=True, eq=False)
class SegmentBytes:
    """The written batches of one segment. Who made it opens the file before and closes it after.

    `offset_next` is the base offset of the segment behind it, where there is one in what is
    cleaned, else the first uncleanable offset. `start_position`: reading may begin there, with a
    whole batch, as everything before it is below the first dirty offset.
    """

    file: File
    size_bytes: int
    base_offset: int
    offset_next: int
    start_position: int = 0

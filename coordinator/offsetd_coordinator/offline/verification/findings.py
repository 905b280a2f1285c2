"""Findings of a verification."""

import attrs


@attrs.frozen(kw_only=True)
class Finding:
    """Something is wrong at a place: `file` inside the data folder, `position` in bytes.

    The position is None where the file as a whole is meant. A warning is about what was written so:
    nothing is damaged.
    """

    file: str
    position: int | None = None
    reason: str
    is_warning: bool = False

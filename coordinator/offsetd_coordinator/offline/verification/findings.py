"""Findings of a verification."""

import attrs


@attrs.frozen(kw_only=True)
class Finding:
    """A problem in `file`, a path relative to the data folder, at the byte `position`.

    The position is None if the problem concerns the whole file. A warning means that nothing is
    damaged: the file has what was written.
    """

    file: str
    position: int | None = None
    reason: str
    is_warning: bool = False

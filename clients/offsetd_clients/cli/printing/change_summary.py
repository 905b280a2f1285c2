"""A summary of many changed offsets in one line."""

from collections.abc import Iterable


def summary(changes: Iterable[tuple[int | None, int | None]]) -> str:
    """Text with the numbers of offsets that go back (are read again) and ahead (are skipped).

    Each change is an offset before and after; None stands for no offset.
    """
    told = list(changes)
    shifts = [after - before for before, after in told if before is not None and after is not None]
    back, ahead = [-each for each in shifts if each < 0], [each for each in shifts if each > 0]
    parts = [
        (len(back), f"back, by {sum(back):,} in all"),
        (len(ahead), f"ahead, by {sum(ahead):,} in all"),
        (len(shifts) - len(back) - len(ahead), "unchanged"),
        (sum(before is None for before, _ in told), "new"),
        (sum(after is None for _, after in told), "deleted"),
    ]
    listed = "; ".join(f"{count:,} {what}" for count, what in parts if count)
    return f"{len(told):,} {'offset' if len(told) == 1 else 'offsets'}: {listed}"

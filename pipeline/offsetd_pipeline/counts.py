"""Counts in sentences."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 group`, `2 groups`, `1,234 groups`; `plural` where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def were(count: int) -> str:
    """`was` of one, `were` of any other count."""
    return "was" if count == 1 else "were"

"""Counts in sentences."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 group`, `2 groups`, `1,234 groups`. `plural` is for nouns without a plural in s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def were(count: int) -> str:
    """`was` for one, `were` for any other count."""
    return "was" if count == 1 else "were"

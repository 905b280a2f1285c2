"""Counts in sentences."""


def counted(count: int, one: str, several: str = "") -> str:
    """`1 row`, `2 rows`; `several`: where an s does not do."""
    return f"{count} {one if count == 1 else several or one + 's'}"

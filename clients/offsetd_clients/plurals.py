"""Counts in sentences."""


def counted(count: int, one: str, several: str = "") -> str:
    """`1 row`, `2 rows`. `several` is the plural if it is not formed with an s."""
    return f"{count} {one if count == 1 else several or one + 's'}"

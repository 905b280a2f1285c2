"""Whole numbers on the command line, and in files that it reads."""

import typer

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_DIGITS_MAX = 100  # Longer texts are refused before their value is computed.


def parse_whole_number(text: str, where: str, *, largest: int, name: str = "number") -> int:
    """A number from 0 to `largest`. Raises typer.BadParameter, whose text begins with `where`."""
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{where}: {name} {text!r} is not a whole number of 0 or more")
    if len(text) > _DIGITS_MAX or int(text) > largest:
        raise typer.BadParameter(f"{where}: the largest {name} is {largest}")
    return int(text)

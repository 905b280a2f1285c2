"""Texts for users: shortened names, errors in words. No I/O."""

import re
from collections.abc import Callable

# A longer word (a name, a path) or line is cut: its beginning is printed, with its length.
WORD_CHARACTERS_MAX = 300
LINE_CHARACTERS_MAX = 2000
_SHOWN_CHARACTERS = 100

# A long word. It ends at the characters that stand around a name in a sentence.
_LONG_WORD = re.compile(rf"[^\s:;,'\"]{{{WORD_CHARACTERS_MAX + 1},}}")
# Messages of the library that reads arguments, and the texts that replace them.
_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(said), told)
    for said, told in (
        (r"\bValue error, ", ""),
        (r"Input should be a valid integer\b.*", "it is not a whole number"),
        (r"Input should be a valid number\b.*", "it is not a number"),
        (r"Input should be greater than or equal to (\S+)", r"it is below \1, the smallest"),
        (r"Input should be less than or equal to (\S+)", r"it is above \1, the largest"),
        (r"Input should be", "it should be"),
        (r"'utf-8' codec can't encode .*", "it is not UTF-8"),
    )
)


def shortened(text: str) -> str:
    """Shortens words and lines of `text` that are too long."""
    if len(text) <= WORD_CHARACTERS_MAX:
        return text
    words = _LONG_WORD.sub(lambda found: _cut(found[0]), text)
    return "\n".join(
        _cut(line) if len(line) > LINE_CHARACTERS_MAX else line for line in words.split("\n")
    )


def wrong_use_text(text: str, printable: Callable[[str], str]) -> str:
    """The error of an argument or an option, in the printed form."""
    for said, told in _WORDS:
        text = said.sub(told, text)
    return shortened(printable(text))


def error_words(error: Exception) -> str:
    """The text of an error for a user. For an OSError, the text without the error number."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {error.start})"
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"


def _cut(text: str) -> str:
    return f"{text[:_SHOWN_CHARACTERS]}… ({len(text):,} characters)"

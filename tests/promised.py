"""Tests that say which sentences of a page they try, and fail once one has left the page."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[1]


def promised_by(page: str) -> Callable[..., Callable[[Callable[..., None]], Callable[..., None]]]:
    """Makes the decorator of one page: it takes the sentences, as they stand there."""

    def promised(*sentences: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        def decorate(test: Callable[..., None]) -> Callable[..., None]:
            @functools.wraps(test)
            def tried(*arguments: Any, **named: Any) -> None:
                missing = absent(page, sentences)
                assert not missing, f"{page} does not say {missing}"
                test(*arguments, **named)

            return tried

        return decorate

    return promised


def absent(page: str, sentences: tuple[str, ...]) -> list[str]:
    """Those of the sentences that the page has not; lines may be broken elsewhere."""
    text = _plain((ROOT / page).read_text("utf-8"))
    return [each for each in sentences if _plain(each) not in text]


def _plain(text: str) -> str:
    """Without what only lays text out."""
    return " ".join(text.replace("*", "").split())

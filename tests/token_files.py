"""A server's file of tokens, as a test writes it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from offsetd_coordinator.security.token_file import create_token, revoke_tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def wall_ms() -> int:
    """The time of this machine, in ms since 1970."""
    return int(time.time() * 1000)


class TokenFile:
    """Makes tokens and revokes them."""

    def __init__(self, path: Path, now_ms: Callable[[], int] = wall_ms) -> None:
        self.path = path
        self._now_ms = now_ms

    def create(self, principal: str, *, life_ms: int | None = None) -> tuple[str, str]:
        """A token, which may be valid for some time only, and its id."""
        now_ms = self._now_ms()
        expires_ms = None if life_ms is None else now_ms + life_ms
        token, stored = create_token(self.path, principal, now_ms=now_ms, expires_ms=expires_ms)
        return token, stored.token_id

    def revoke(self, token_id: str) -> None:
        """Takes a token out."""
        revoke_tokens(self.path, [token_id])

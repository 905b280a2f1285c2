"""Pages of long answers: page sizes, and the tokens for the next page."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.errors import InvalidPageToken, InvalidRequest

if TYPE_CHECKING:
    from google.protobuf.message import Message

_DIGEST_BYTES: Final = 8
_NOT_OURS: Final = "not one that this server made"


def read_page_size(size: int, *, default: int, most: int) -> int:
    """The requested page size, at most `most`; `default` if it is 0. Raises InvalidRequest."""
    if size < 0:
        raise InvalidRequest("page_size", "{value} is below 0", value=size)
    return min(size or default, most)


def page_token(question: Message, position: bytes) -> str:
    """A token for the page after `position`, valid only for the same question.

    `question` is the request without its page size and token.
    """
    return base64.urlsafe_b64encode(_digest(question) + position).decode()


def read_page_token(question: Message, token: str) -> bytes | None:
    """The position in a token; None for the first page. Raises InvalidPageToken."""
    if not token:
        return None
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise not_ours() from error
    if raw[:_DIGEST_BYTES] != _digest(question):
        raise InvalidPageToken("page_token", "made for a request with other fields")
    return raw[_DIGEST_BYTES:]


def not_ours() -> InvalidPageToken:
    """The error for a token that this server did not make, such as one of the wrong length."""
    return InvalidPageToken("page_token", _NOT_OURS)


def _digest(question: Message) -> bytes:
    encoded = question.SerializeToString(deterministic=True)
    return hashlib.sha256(encoded).digest()[:_DIGEST_BYTES]

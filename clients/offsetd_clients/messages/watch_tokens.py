"""Merges the tokens of watchers of several nodes. `history.proto` describes their form."""

import base64
import binascii
from collections.abc import Iterable

from offsetd_clients.messages.varints import varint, varints

_PREFIX_BYTES = 9  # The version, and the digest of the question.


def merged(tokens: Iterable[str]) -> str:
    """One token with the farthest position in each log partition. Empty ones are left out.

    Raises ValueError for tokens of different watchers, and for texts that are not tokens.
    """
    prefixes, positions = set[bytes](), dict[int, int]()
    for token in filter(None, tokens):
        prefix, numbers = _decoded(token)
        prefixes.add(prefix)
        for log_partition, position in zip(numbers[::2], numbers[1::2], strict=True):
            positions[log_partition] = max(position, positions.get(log_partition, 0))
    if not prefixes:
        return ""
    if len(prefixes) > 1:
        raise ValueError("tokens of different watchers")
    encoded = bytearray(*prefixes)
    for log_partition, position in sorted(positions.items()):
        encoded += varint(log_partition) + varint(position)
    return base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


def log_partitions_in(token: str) -> set[int]:
    """The log partitions that have a position in a token. Raises ValueError."""
    return set(_decoded(token)[1][::2]) if token else set()


def _decoded(token: str) -> tuple[bytes, list[int]]:
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not a token of a watcher: {token!r}") from error
    return raw[:_PREFIX_BYTES], list(varints(raw[_PREFIX_BYTES:]))

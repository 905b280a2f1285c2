"""Claims: the records in which a node says that it owns a log partition, or has given it up.

The newest claim of a partition is the truth, because an owner writes it in a transaction that only
the current generation of the nodes' group may commit. A claim has a key of its own, so compaction
keeps the newest one. It has no place in our log.
"""

from __future__ import annotations

import json
from typing import Final, Self

import attrs

CLAIM_KEY: Final = b"\xff\xffoffsetd.claim"
"""The first two bytes are a version that no key of Kafka or offsetd has."""


class MalformedClaim(ValueError):
    """A record has the key of a claim, but its value cannot be read."""


@attrs.frozen(kw_only=True)
class Claim:
    """A node's claim to one partition."""

    epoch: int
    """The epoch of the claim before, plus 1."""
    node_id: str
    address: str
    producers: int
    """The number of producers of the node. Its transactional ids follow from it."""
    first_offset: int
    """The log offset from which on the node writes."""
    unused_from: int | None = None
    """No record ever had a log offset from this one up to `first_offset`. None: not known."""
    shift: int = 0
    """Kafka's offset plus this number is a log offset that was never given out."""
    read_lease_ms: int = 0
    """How long the node answers reads after its last transaction. 0: not known."""
    is_released: bool = False
    """Whether the node has given the partition up, and answers nothing more for it."""

    def encode(self) -> bytes:
        """The value of the claim's record."""
        return json.dumps(attrs.asdict(self) | {"version": 1}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """A claim from its record's value. Raises MalformedClaim."""
        try:
            fields = json.loads(value)
            if fields.pop("version") != 1:
                raise MalformedClaim("a claim of a newer version")
            known = {each.name for each in attrs.fields(cls)}
            return cls(**{name: value for name, value in fields.items() if name in known})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MalformedClaim(f"a claim that cannot be read: {error}") from error
